//! The table of variables, for `config.toml`, `.env.example` and the documentation.

/// Every variable that vic reads, with one line on what it does.
pub const NAMES: &[(&str, &str)] = &[
    ("VIC_DATA_DIR", "directory of everything vic writes (default: the platform's data directory)"),
    ("VIC_DB_PATH", "directory of the index (default: index in the data directory)"),
    ("VIC_JOB_DB_PATH", "SQLite file of the jobs (default: vic_jobs.sqlite beside the index)"),
    ("VIC_LISTEN", "TCP address, port 0 allowed (default 127.0.0.1:8765)"),
    (
        "VIC_BRIDGE_API_KEY",
        "bearer key that everything on the TCP port but /health asks for, of 32 characters or more where other machines \
         reach it; without it the one in the file `key`",
    ),
    (
        "VIC_BRIDGE_AUTH",
        "key (default) or none: no key is asked for, which every program on this machine can use; loopback only, without VIC_BRIDGE_PLAIN",
    ),
    (
        "VIC_BRIDGE_HOSTS",
        "further names under which programs may call this server, host or host:port, separated by commas",
    ),
    (
        "VIC_BRIDGE_TLS_CERT",
        "PEM file with the certificate chain; with it and VIC_BRIDGE_TLS_KEY the TCP port speaks TLS",
    ),
    ("VIC_BRIDGE_TLS_KEY", "PEM file with the private key of that certificate"),
    (
        "VIC_BRIDGE_PLAIN",
        "1 says that a proxy passes others on and adds TLS, so that VIC_LISTEN may be any address without it (default 0)",
    ),
    (
        "VIC_BRIDGE_RATE_LIMIT_PER_MIN",
        "requests to /v1/* of one key at one address in any 60 seconds; 0 is no limit (default 120)",
    ),
    ("VIC_BRIDGE_MAX_BODY_BYTES", "largest body of an HTTP request (default 2097152)"),
    ("VIC_WAREHOUSE_ROOT", "root when a command names none"),
    ("VIC_PRIVACY_MODE", "local_only (default), cloud_reasoning_ok or cloud_embedding_ok"),
    ("VIC_LOG_LEVEL", "ERROR, WARNING, INFO (default) or DEBUG"),
    ("VIC_MODELS_DIR", "directory of models and runtime libraries (default: models in the data directory)"),
    ("VIC_VECTOR_BACKEND", "lance (default); milvus is not built yet"),
    ("VIC_MILVUS_URI", "Milvus file or server, once that is built (default: milvus_lite.db in VIC_DB_PATH)"),
    ("VIC_MILVUS_COLLECTION", "Milvus collection, once that is built (default vic_chunks)"),
    ("VIC_EMBED_BACKEND", "onnx (default), ollama or openai"),
    ("VIC_EMBED_MODEL", "model of models/catalog.toml (default all-MiniLM-L6-v2)"),
    ("VIC_EMBED_THREADS", "texts embedded at the same time in process (default 0: one per core, at most eight)"),
    ("VIC_EMBED_BATCH", "texts handed to the embedder in one call (default 0: what suits the backend)"),
    ("VIC_EMBED_PRECISION", "int8 (default; on a graphics card fp32) or fp32"),
    (
        "VIC_EMBED_ENGINE",
        "what computes int8 in process: auto (default: vic's own encoder where it is fast, else ONNX Runtime), own or onnx",
    ),
    (
        "VIC_EMBED_DEVICE",
        "what in-process models run on: cpu (default) or cuda, a graphics card, with `vic models pull onnxruntime-cuda`",
    ),
    ("VIC_OLLAMA_BASE_URL", "Ollama server (default: OLLAMA_HOST as Ollama reads it, else http://127.0.0.1:11434)"),
    ("VIC_OLLAMA_EMBED_MODEL", "embedding model on it (default embeddinggemma)"),
    ("VIC_OLLAMA_API_KEY", "bearer key for it"),
    ("VIC_OPENAI_BASE_URL", "OpenAI-compatible server (default http://127.0.0.1:8080)"),
    ("VIC_OPENAI_EMBED_MODEL", "embedding model on it (default text-embedding-3-small)"),
    ("VIC_OPENAI_API_KEY", "bearer key for it"),
    ("VIC_SERVERS_CA", "PEM file of certificates that are trusted for these servers, beside those of the system"),
    (
        "VIC_LIBRARIAN_BACKEND",
        "who plans questions and writes answers: stub (default: rules, no model), ollama or openai",
    ),
    (
        "VIC_OLLAMA_MODEL",
        "language model on the Ollama server, as `ollama list` names it; required by the backend ollama",
    ),
    ("VIC_OLLAMA_VISION_MODEL", "vision model on it (default glm-ocr:q8_0)"),
    ("VIC_OPENAI_MODEL", "language model on the OpenAI-compatible server; required by the backend openai"),
    ("VIC_OPENAI_VISION_MODEL", "vision model on it (default VIC_OPENAI_MODEL)"),
    ("VIC_L2_MAX_IMAGE_BYTES", "larger images are not shown to a vision model (default 12582912)"),
    ("VIC_L2_SECONDS", "seconds that looking into files may take for one question (default 20)"),
    (
        "VIC_LLM_CONTEXT_TOKENS",
        "most tokens of context, prompt and answer together, that a language model is asked with (default 16384)",
    ),
    ("VIC_LLM_MAX_SECONDS", "most seconds that one piece of work of a language model may take (default 3600)"),
    (
        "VIC_SYNTHETIC_JSONL",
        "file that vic synthetic-plans writes (default training/synthetic_plans.jsonl if ./training exists)",
    ),
    ("VIC_WORKERS", "extraction processes (default: one per core)"),
    ("VIC_EXTRACT_SECONDS", "time limit of one extraction (default 30)"),
    ("VIC_EXTRACT_MEMORY_MIB", "memory limit of one extraction, resident (default 512)"),
    (
        "VIC_JAIL",
        "required (default), or optional: documents are read even where the worker processes cannot be jailed",
    ),
    (
        "VIC_REDACT",
        "what is blacked out in texts: none, keys (default: keys and tokens) or all (card and account numbers too)",
    ),
    ("VIC_OCR", "auto (default), never or always: whether changed files have their pictures of text read"),
    ("VIC_IGNORE", "extra globs to leave out, separated by commas"),
    ("VIC_INCLUDE_HIDDEN", "1 walks hidden files too; known secrets stay out (default 0)"),
    ("VIC_MAX_FILE_BYTES", "larger files are known by name only (default 268435456)"),
    ("VIC_WATCH", "0 turns watching off (default 1)"),
    ("VIC_RESCAN_SECONDS", "seconds between reconcile scans (default 3600)"),
    (
        "VIC_DISK_RESERVE_BYTES",
        "free space of its disk below which vic indexes nothing, 0 for none (default: the larger of 1 GiB and 2 %)",
    ),
    ("VIC_POLL_SECONDS", "seconds between walks of folders that cannot be watched (default 30)"),
    (
        "VIC_VERIFY_SECONDS",
        "seconds between readings of every file for changes under the same size and times; 0 is never (default 86400)",
    ),
    ("VIC_CPU_PERCENT", "share of all processors that indexing may use, 1 to 100 (default 100)"),
    ("VIC_PAUSE_ON_BATTERY", "1 lets indexing wait for mains power (default 0)"),
];
