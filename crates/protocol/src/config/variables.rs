//! The list of all environment variables of vic, from which `config.toml` templates and the documentation are made.

/// Every variable that vic reads, with a description in one line.
pub const VARIABLES: &[(&str, &str)] = &[
    ("VIC_DATA_DIR", "directory of everything vic writes (default: the platform's data directory)"),
    ("VIC_DB_PATH", "directory of the index (default: index in the data directory)"),
    ("VIC_JOB_DB_PATH", "SQLite file of the jobs (default: vic_jobs.sqlite beside the index)"),
    ("VIC_LISTEN", "TCP address to listen on; port 0 selects a free port (default 127.0.0.1:8765)"),
    (
        "VIC_BRIDGE_API_KEY",
        "API key that requests to the TCP port must send, except to /health; at least 32 characters if other machines can reach the port; if unset, the key in the file `key`",
    ),
    (
        "VIC_BRIDGE_AUTH",
        "key (default), or none: the TCP port requires no API key, so that every program on this machine has access; only for loopback addresses, without VIC_BRIDGE_PLAIN",
    ),
    (
        "VIC_BRIDGE_HOSTS",
        "additional names by which clients reach this server, as host or host:port, separated by commas",
    ),
    (
        "VIC_BRIDGE_TLS_CERT",
        "PEM file with the certificate chain; if it and VIC_BRIDGE_TLS_KEY are set, the TCP port uses TLS",
    ),
    ("VIC_BRIDGE_TLS_KEY", "PEM file with the private key of the certificate in VIC_BRIDGE_TLS_CERT"),
    (
        "VIC_BRIDGE_PLAIN",
        "1: a proxy forwards requests and adds TLS, so that VIC_LISTEN may be any address without a certificate (default 0)",
    ),
    (
        "VIC_BRIDGE_RATE_LIMIT_PER_MIN",
        "maximum number of requests to /v1/* in any 60 seconds per key and address; 0 means no limit (default 120)",
    ),
    ("VIC_BRIDGE_MAX_BODY_BYTES", "maximum size in bytes of an HTTP request body (default 2097152)"),
    ("VIC_WAREHOUSE_ROOT", "root folder for commands that are given no folder"),
    (
        "VIC_PRIVACY_MODE",
        "which data may leave the machine: local_only (default), cloud_reasoning_ok or cloud_embedding_ok",
    ),
    ("VIC_LOG_LEVEL", "level of the log: ERROR, WARNING, INFO (default) or DEBUG"),
    ("VIC_MODELS_DIR", "directory of models and runtime libraries (default: models in the data directory)"),
    ("VIC_VECTOR_BACKEND", "vector store: lance (default); milvus is not supported yet"),
    ("VIC_MILVUS_URI", "Milvus file or server, not used yet (default: milvus_lite.db in VIC_DB_PATH)"),
    ("VIC_MILVUS_COLLECTION", "Milvus collection, not used yet (default vic_chunks)"),
    ("VIC_EMBED_BACKEND", "what computes embedding vectors: onnx (default; in process), ollama or openai"),
    ("VIC_EMBED_MODEL", "embedding model: a name in models/catalog.toml, or a folder (default all-MiniLM-L6-v2)"),
    ("VIC_EMBED_THREADS", "number of texts embedded in parallel in process (default 0: one per core, at most eight)"),
    ("VIC_EMBED_BATCH", "number of texts per call of the embedder (default 0: chosen for the backend)"),
    ("VIC_EMBED_PRECISION", "number format of the model's weights: int8 (default; on a graphics card fp32) or fp32"),
    (
        "VIC_EMBED_ENGINE",
        "what runs int8 models in process: auto (default: vic's own encoder where it is fast, else ONNX Runtime), own or onnx",
    ),
    (
        "VIC_EMBED_DEVICE",
        "device of in-process models: cpu (default) or cuda, a graphics card; needs `vic models pull onnxruntime-cuda`",
    ),
    ("VIC_OLLAMA_BASE_URL", "Ollama server (default: OLLAMA_HOST as Ollama reads it, else http://127.0.0.1:11434)"),
    ("VIC_OLLAMA_EMBED_MODEL", "embedding model on the Ollama server (default embeddinggemma)"),
    ("VIC_OLLAMA_API_KEY", "API key (bearer token) for the Ollama server"),
    ("VIC_OPENAI_BASE_URL", "OpenAI-compatible server (default http://127.0.0.1:8080)"),
    ("VIC_OPENAI_EMBED_MODEL", "embedding model on the OpenAI-compatible server (default text-embedding-3-small)"),
    ("VIC_OPENAI_API_KEY", "API key (bearer token) for the OpenAI-compatible server"),
    ("VIC_SERVERS_CA", "PEM file of certificates to trust for TLS to the model servers, besides those of the system"),
    (
        "VIC_LIBRARIAN_BACKEND",
        "what plans questions and writes answers: stub (default: rules, no model), ollama or openai",
    ),
    (
        "VIC_OLLAMA_MODEL",
        "language model on the Ollama server, as `ollama list` names it; required by the backend ollama",
    ),
    ("VIC_OLLAMA_VISION_MODEL", "vision model on the Ollama server (default glm-ocr:q8_0)"),
    ("VIC_OPENAI_MODEL", "language model on the OpenAI-compatible server; required by the backend openai"),
    ("VIC_OPENAI_VISION_MODEL", "vision model on the OpenAI-compatible server (default VIC_OPENAI_MODEL)"),
    ("VIC_L2_MAX_IMAGE_BYTES", "maximum size in bytes of an image sent to a vision model (default 12582912)"),
    ("VIC_L2_SECONDS", "time limit in seconds per question for OCR and other skills (default 20)"),
    (
        "VIC_LLM_CONTEXT_TOKENS",
        "limit on the context of a language model in tokens, prompt and answer together (default 16384)",
    ),
    ("VIC_LLM_MAX_SECONDS", "time limit in seconds of one task of a language model (default 3600)"),
    (
        "VIC_SYNTHETIC_JSONL",
        "file that vic synthetic-plans writes (default training/synthetic_plans.jsonl if ./training exists)",
    ),
    ("VIC_WORKERS", "number of extraction processes (default: one per core)"),
    ("VIC_EXTRACT_SECONDS", "time limit in seconds for the extraction of one file (default 30)"),
    ("VIC_EXTRACT_MEMORY_MIB", "limit in MiB on the resident memory of one extraction process (default 512)"),
    (
        "VIC_JAIL",
        "sandbox of extraction processes: required (default), or optional: files are read even without a sandbox",
    ),
    (
        "VIC_REDACT",
        "secrets to redact in texts: none, keys (default: keys and tokens) or all (also card and account numbers)",
    ),
    ("VIC_OCR", "OCR of changed files: auto (default), never or always"),
    ("VIC_IGNORE", "globs of files to exclude from the index, separated by commas"),
    ("VIC_INCLUDE_HIDDEN", "1: hidden files are indexed too; known secret files stay excluded (default 0)"),
    (
        "VIC_MAX_FILE_BYTES",
        "maximum size in bytes of a file whose content is read; larger files are indexed by name only (default 268435456)",
    ),
    ("VIC_WATCH", "0: root folders are not watched for changes (default 1)"),
    ("VIC_RESCAN_SECONDS", "seconds between full scans, which find changes that the watcher missed (default 3600)"),
    (
        "VIC_DISK_RESERVE_BYTES",
        "free bytes on the disk below which vic stops indexing; 0 means no limit (default: the larger of 1 GiB and 2 %)",
    ),
    ("VIC_POLL_SECONDS", "seconds between scans of folders that cannot be watched (default 30)"),
    (
        "VIC_VERIFY_SECONDS",
        "seconds between full reads of all files, which find content that changed under the same size and times; 0 means never (default 86400)",
    ),
    ("VIC_CPU_PERCENT", "percentage of all processors that indexing may use, 1 to 100 (default 100)"),
    ("VIC_PAUSE_ON_BATTERY", "1: indexing waits for mains power (default 0)"),
];
