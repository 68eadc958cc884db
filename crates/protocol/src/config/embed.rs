//! Settings of the embedder.

/// The embedding backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmbedBackend {
    /// In process, by ONNX Runtime.
    Onnx,
    /// `POST /api/embed` of an Ollama server.
    Ollama,
    /// `POST /v1/embeddings` of an OpenAI-compatible server.
    OpenAi,
}

impl EmbedBackend {
    /// Every backend.
    pub const ALL: [EmbedBackend; 3] = [EmbedBackend::Onnx, EmbedBackend::Ollama, EmbedBackend::OpenAi];

    /// Returns the name, as in `VIC_EMBED_BACKEND`.
    pub fn name(self) -> &'static str {
        match self {
            EmbedBackend::Onnx => "onnx",
            EmbedBackend::Ollama => "ollama",
            EmbedBackend::OpenAi => "openai",
        }
    }

    /// Returns the default model.
    pub fn default_model(self) -> &'static str {
        self.model_variable().1
    }

    /// The variable that names its model, and the default model.
    pub(super) fn model_variable(self) -> (&'static str, &'static str) {
        match self {
            EmbedBackend::Onnx => ("VIC_EMBED_MODEL", "all-MiniLM-L6-v2"),
            EmbedBackend::Ollama => ("VIC_OLLAMA_EMBED_MODEL", "embeddinggemma"),
            EmbedBackend::OpenAi => ("VIC_OPENAI_EMBED_MODEL", "text-embedding-3-small"),
        }
    }
}

/// The engine of in-process models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmbedEngine {
    /// vic's own encoder if it is fast and supports the model, else ONNX Runtime.
    Auto,
    /// vic's own encoder, even where it is slow.
    Own,
    /// ONNX Runtime.
    Onnx,
}

impl EmbedEngine {
    /// Every engine.
    pub const ALL: [EmbedEngine; 3] = [EmbedEngine::Auto, EmbedEngine::Own, EmbedEngine::Onnx];

    /// The name in settings.
    pub fn name(self) -> &'static str {
        match self {
            EmbedEngine::Auto => "auto",
            EmbedEngine::Own => "own",
            EmbedEngine::Onnx => "onnx",
        }
    }
}

/// The device of in-process models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmbedDevice {
    /// The CPU.
    Cpu,
    /// An NVIDIA GPU with CUDA: ONNX Runtime, in floating point.
    Cuda,
}

impl EmbedDevice {
    /// Every device.
    pub const ALL: [EmbedDevice; 2] = [EmbedDevice::Cpu, EmbedDevice::Cuda];

    /// The name in settings.
    pub fn name(self) -> &'static str {
        match self {
            EmbedDevice::Cpu => "cpu",
            EmbedDevice::Cuda => "cuda",
        }
    }

    /// The catalog name of the ONNX Runtime for this device.
    pub const fn runtime_library(self) -> &'static str {
        match self {
            EmbedDevice::Cpu => "onnxruntime",
            EmbedDevice::Cuda => "onnxruntime-cuda",
        }
    }

    /// The default precision: integers are fast on CPUs only.
    pub fn default_precision(self) -> &'static str {
        match self {
            EmbedDevice::Cpu => "int8",
            EmbedDevice::Cuda => "fp32",
        }
    }
}

/// Upper limit of embedding threads, more than the cores of the largest machines. Each holds a copy of the model.
pub const MAX_EMBED_THREADS: u32 = 1_024;

/// Settings of the embedder.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbedConfig {
    /// `VIC_EMBED_BACKEND`: `onnx`, `ollama` or `openai`.
    pub backend: EmbedBackend,
    /// `VIC_EMBED_MODEL`, or the backend's own variable: the model's name.
    pub model: String,
    /// `VIC_EMBED_THREADS`: texts embedded at the same time in process, one thread each; 0 is one per core.
    pub threads: usize,
    /// `VIC_EMBED_BATCH`: texts per call; 0 is the backend's default.
    pub batch: usize,
    /// `VIC_EMBED_PRECISION`: `int8` or `fp32`.
    pub precision: String,
    /// `VIC_EMBED_ENGINE`: `auto`, `own` or `onnx`.
    pub engine: EmbedEngine,
    /// `VIC_EMBED_DEVICE`: `cpu` or `cuda`.
    pub device: EmbedDevice,
    /// `VIC_OLLAMA_BASE_URL`.
    pub ollama_url: String,
    /// `VIC_OLLAMA_API_KEY`.
    pub ollama_key: Option<String>,
    /// `VIC_OPENAI_BASE_URL`.
    pub openai_url: String,
    /// `VIC_OPENAI_API_KEY`.
    pub openai_key: Option<String>,
    /// Tokens of context requested from an Ollama server. `None` uses the server's default, which always fits a passage
    /// of the index.
    pub context_tokens: Option<u32>,
}
