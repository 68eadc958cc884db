//! Settings of the embedder, which computes the vectors of texts.

/// The program that computes embedding vectors: this process or a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmbedBackend {
    /// In the daemon's process, by ONNX Runtime or vic's own encoder.
    Onnx,
    /// An Ollama server, by `POST /api/embed`.
    Ollama,
    /// An OpenAI-compatible server, by `POST /v1/embeddings`.
    OpenAi,
}

impl EmbedBackend {
    /// Every embedding backend.
    pub const ALL: [EmbedBackend; 3] = [EmbedBackend::Onnx, EmbedBackend::Ollama, EmbedBackend::OpenAi];

    /// Returns the value of `VIC_EMBED_BACKEND` that selects this backend.
    pub fn name(self) -> &'static str {
        match self {
            EmbedBackend::Onnx => "onnx",
            EmbedBackend::Ollama => "ollama",
            EmbedBackend::OpenAi => "openai",
        }
    }

    /// Returns the name of the model that this backend uses by default.
    pub fn default_model(self) -> &'static str {
        self.model_variable().1
    }

    /// Returns the variable that names this backend's model, and the backend's default model.
    pub(super) fn model_variable(self) -> (&'static str, &'static str) {
        match self {
            EmbedBackend::Onnx => ("VIC_EMBED_MODEL", "all-MiniLM-L6-v2"),
            EmbedBackend::Ollama => ("VIC_OLLAMA_EMBED_MODEL", "embeddinggemma"),
            EmbedBackend::OpenAi => ("VIC_OPENAI_EMBED_MODEL", "text-embedding-3-small"),
        }
    }
}

/// The program code that runs in-process embedding models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmbedEngine {
    /// vic's own encoder if it is fast and supports the model, else ONNX Runtime.
    Auto,
    /// vic's own encoder, even where it is slow.
    Own,
    /// ONNX Runtime, even where vic's own encoder is faster.
    Onnx,
}

impl EmbedEngine {
    /// Every embedding engine.
    pub const ALL: [EmbedEngine; 3] = [EmbedEngine::Auto, EmbedEngine::Own, EmbedEngine::Onnx];

    /// Returns the value of `VIC_EMBED_ENGINE` that selects this engine.
    pub fn name(self) -> &'static str {
        match self {
            EmbedEngine::Auto => "auto",
            EmbedEngine::Own => "own",
            EmbedEngine::Onnx => "onnx",
        }
    }
}

/// The device on which in-process embedding models run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmbedDevice {
    /// The CPU.
    Cpu,
    /// An NVIDIA GPU with CUDA, used by ONNX Runtime with floating-point models.
    Cuda,
}

impl EmbedDevice {
    /// Every embedding device.
    pub const ALL: [EmbedDevice; 2] = [EmbedDevice::Cpu, EmbedDevice::Cuda];

    /// Returns the value of `VIC_EMBED_DEVICE` that selects this device.
    pub fn name(self) -> &'static str {
        match self {
            EmbedDevice::Cpu => "cpu",
            EmbedDevice::Cuda => "cuda",
        }
    }

    /// Returns the name under which the model catalog lists the ONNX Runtime library for this device.
    pub const fn runtime_library(self) -> &'static str {
        match self {
            EmbedDevice::Cpu => "onnxruntime",
            EmbedDevice::Cuda => "onnxruntime-cuda",
        }
    }

    /// Returns the default precision: `int8` on CPUs only, because integers are slow on GPUs.
    pub fn default_precision(self) -> &'static str {
        match self {
            EmbedDevice::Cpu => "int8",
            EmbedDevice::Cuda => "fp32",
        }
    }
}

/// Maximum of `VIC_EMBED_THREADS`, above the core count of the largest machines: each thread holds a copy of the model.
pub const MAX_EMBED_THREADS: u32 = 1_024;

/// Settings of the embedder.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbedConfig {
    /// `VIC_EMBED_BACKEND`: what computes the vectors: `onnx`, `ollama` or `openai`.
    pub backend: EmbedBackend,
    /// `VIC_EMBED_MODEL`, or the variable of the backend: name of the embedding model.
    pub model: String,
    /// `VIC_EMBED_THREADS`: in-process threads, each embedding one text at a time; 0 means one thread per core.
    pub threads: usize,
    /// `VIC_EMBED_BATCH`: texts per call of the backend; 0 means the backend's default.
    pub batch: usize,
    /// `VIC_EMBED_PRECISION`: number format of the model's weights, `int8` or `fp32`.
    pub precision: String,
    /// `VIC_EMBED_ENGINE`: the code that runs in-process models: `auto`, `own` or `onnx`.
    pub engine: EmbedEngine,
    /// `VIC_EMBED_DEVICE`: the device for in-process models: `cpu` or `cuda`.
    pub device: EmbedDevice,
    /// `VIC_OLLAMA_BASE_URL`: address of the Ollama server.
    pub ollama_url: String,
    /// `VIC_OLLAMA_API_KEY`: API key for the Ollama server.
    pub ollama_key: Option<String>,
    /// `VIC_OPENAI_BASE_URL`: address of the OpenAI-compatible server.
    pub openai_url: String,
    /// `VIC_OPENAI_API_KEY`: API key for the OpenAI-compatible server.
    pub openai_key: Option<String>,
    /// Context size in tokens to request from an Ollama server. `None` keeps the server's default, which always fits one
    /// chunk of the index.
    pub context_tokens: Option<u32>,
}
