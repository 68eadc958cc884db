//! Tests with the default model and with tiny user models. The default model is read from `models/cache`, which `make
//! test` fills.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::*;
use crate::config::{EmbedBackend, EmbedDevice, EmbedEngine};
use crate::embed::onnx::graph::tests::{TinyBert, TinyShape, write_tokenizer};
use crate::error::ErrorCode;

/// Turns off telemetry once, before a test loads ONNX Runtime.
pub(super) fn without_telemetry() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(disable_telemetry);
}

pub(super) fn cache() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("models/cache")
}

pub(super) fn settings(model: &str, precision: &str) -> EmbedConfig {
    EmbedConfig {
        backend: EmbedBackend::Onnx,
        model: model.into(),
        threads: 2,
        batch: 0,
        precision: precision.into(),
        engine: EmbedEngine::Auto,
        device: EmbedDevice::Cpu,
        ollama_url: String::new(),
        ollama_key: None,
        openai_url: String::new(),
        openai_key: None,
        context_tokens: None,
    }
}

async fn open(dirs: Vec<PathBuf>, model: &str, precision: &str) -> Result<OnnxEmbedder> {
    without_telemetry();
    OnnxEmbedder::open(ModelStore::new(dirs), settings(model, precision)).await
}

async fn open_with(dirs: Vec<PathBuf>, model: &str, precision: &str, engine: EmbedEngine) -> Result<OnnxEmbedder> {
    without_telemetry();
    OnnxEmbedder::open(ModelStore::new(dirs), EmbedConfig { engine, ..settings(model, precision) }).await
}

async fn default_model(precision: &str) -> OnnxEmbedder {
    open(vec![cache()], "all-MiniLM-L6-v2", precision).await.expect("run `make models` first")
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn texts() -> Vec<String> {
    let long = "The wing of an aircraft at high speed is heated by friction in the boundary layer. ".repeat(30);
    ["", "a", "How do I renew my passport?", "El informe trimestral de ventas", "日本語の文書", &long, "\u{0}\u{202e}"]
        .map(String::from)
        .to_vec()
}

#[tokio::test]
async fn onnx_vector_is_independent_of_batch_and_order() {
    let model = default_model("int8").await;
    let texts = texts();
    let batch = model.embed_documents(&texts).await.unwrap();
    let mut reversed: Vec<String> = texts.clone();
    reversed.reverse();
    let mut other = model.embed_documents(&reversed).await.unwrap();
    other.reverse();
    for (at, text) in texts.iter().enumerate() {
        let alone = model.embed_documents(std::slice::from_ref(text)).await.unwrap();
        assert!(cosine(&batch[at], &alone[0]) >= 0.9999, "{text:.40}");
        assert!(cosine(&batch[at], &other[at]) >= 0.9999, "{text:.40}");
        assert!((cosine(&batch[at], &batch[at]) - 1.0).abs() < 1e-5, "{text:.40}");
    }
}

#[tokio::test]
async fn int8_vectors_are_close_to_fp32() {
    let (quantised, exact) = (default_model("int8").await, default_model("fp32").await);
    assert_ne!(quantised.fingerprint(), exact.fingerprint());
    let texts: Vec<String> = crate::embed::sample_texts().into_iter().take(24).collect();
    let (quantised, exact) =
        (quantised.embed_documents(&texts).await.unwrap(), exact.embed_documents(&texts).await.unwrap());
    let mean = quantised.iter().zip(&exact).map(|(a, b)| cosine(a, b)).sum::<f32>() / texts.len() as f32;
    assert!(mean >= 0.99, "{mean}");
}

/// Opens the default model on vic's own encoder, which is slow on processors without fast kernels.
async fn own_model() -> OnnxEmbedder {
    open_with(vec![cache()], "all-MiniLM-L6-v2", "int8", EmbedEngine::Own).await.expect("run `make models` first")
}

/// Returns texts of many lengths: empty, one token, and prefixes of prose; the longest exceed the model's limit.
fn prose() -> Vec<String> {
    let words: Vec<&str> = include_str!("../../lib.rs").split_whitespace().filter(|it| *it != "//!").collect();
    let passage = |count: usize| words[count % 97..].iter().take(count).copied().collect::<Vec<_>>().join(" ");
    let mut texts = texts();
    texts.extend([1, 2, 3, 5, 8, 12, 13, 14, 17, 23, 31, 47, 64, 100, 150, 220, 300, 600].map(passage));
    texts
}

#[tokio::test]
async fn own_encoder_is_close_to_fp32_at_every_length() {
    let (own, exact) = (own_model().await, default_model("fp32").await);
    assert!(
        own.engine().starts_with("own (") && exact.engine() == "onnxruntime",
        "{} {}",
        own.engine(),
        exact.engine()
    );
    let texts = prose();
    let (got, expect) = (own.embed_documents(&texts).await.unwrap(), exact.embed_documents(&texts).await.unwrap());
    let cosines: Vec<f32> = got.iter().zip(&expect).map(|(a, b)| cosine(a, b)).collect();
    let mean = cosines.iter().sum::<f32>() / cosines.len() as f32;
    assert!(mean >= 0.995, "{mean}: {cosines:?}");
    assert!(cosines.iter().all(|it| *it >= 0.985), "{cosines:?}");
}

#[tokio::test]
async fn own_encoder_is_bit_identical_across_batches() {
    let model = own_model().await;
    let texts = texts();
    let batch = model.embed_documents(&texts).await.unwrap();
    let reversed: Vec<String> = texts.iter().rev().cloned().collect();
    let other = model.embed_documents(&reversed).await.unwrap();
    for (at, text) in texts.iter().enumerate() {
        assert_eq!(batch[at], model.embed_query(text).await.unwrap(), "{text:.40}");
        assert_eq!(batch[at], other[texts.len() - 1 - at], "{text:.40}");
    }
}

#[tokio::test]
async fn default_model_knows_words_in_latin_letters_only() {
    let model = default_model("int8").await;
    assert_eq!(model.known_share("Who signed the lease?"), 1.0);
    assert_eq!(model.known_share(""), 1.0);
    for text in [
        "发票寄到哪里",
        "متى تأسست الشركة",
        "Когда была основана компания?",
        "Πότε ιδρύθηκε η εταιρεία;",
        "कंपनी कब बनी थी?",
    ] {
        assert!(model.known_share(text) < 0.5, "{text}: {}", model.known_share(text));
    }
    for (word, is_word) in
        [("bought", true), ("treaties", true), ("wandered", true), ("recieve", false), ("agreemant", false)]
    {
        assert_eq!(model.is_word(word), is_word, "{word}");
    }
    for text in ["Wann wurde das Unternehmen gegründet?", "şirket ne zaman kuruldu", "x = a + b", "C"] {
        assert!(model.known_share(text) > 0.7, "{text}: {}", model.known_share(text));
    }
}

#[tokio::test]
async fn default_model_ranks_related_text_higher() {
    let model = default_model("int8").await;
    assert_eq!((model.dimension(), model.max_tokens(), model.name()), (384, 512, "all-MiniLM-L6-v2 (onnx)"));
    let question = model.embed_query("how to fix a flat bicycle tyre").await.unwrap();
    let texts = ["Patch the inner tube and pump up the wheel of the bike", "Quarterly revenue grew by four percent"];
    let vectors = model.embed_documents(&texts.map(String::from)).await.unwrap();
    assert!(cosine(&question, &vectors[0]) > cosine(&question, &vectors[1]) + 0.3);
}

#[tokio::test]
async fn huge_text_is_truncated_at_token_limit() {
    let model = default_model("int8").await;
    let huge = "word ".repeat(400_000);
    let cut = "word ".repeat(510);
    let vectors = model.embed_documents(&[huge, cut]).await.unwrap();
    assert!(cosine(&vectors[0], &vectors[1]) >= 0.9999);
}

#[tokio::test]
async fn token_spans_of_huge_text_are_ordered_and_valid() {
    let counter = default_model("int8").await.token_counter();
    let text = "Grüße aus München, naïve café.\n".repeat(10_000);
    let spans = counter.token_spans(&text);
    assert_eq!(counter.max_chunk_tokens(), 510);
    assert!(spans.windows(2).all(|it| it[0].1 <= it[1].0));
    assert!(spans.iter().all(|&(from, to)| from < to && text.get(from..to).is_some()));
    assert_eq!(spans.len() % 10_000, 0);
}

// Case E4
#[tokio::test]
async fn missing_model_error_hints_pull_command() {
    let empty = tempfile::tempdir().unwrap();
    let error = open(vec![empty.path().to_path_buf()], "all-MiniLM-L6-v2", "int8").await.err().unwrap();
    assert_eq!(error.code, ErrorCode::NotFound);
    assert_eq!(error.hint.as_deref(), Some("run `vic models pull all-MiniLM-L6-v2`"));
}

/// Makes a models directory with a tiny model and a catalog of its own.
fn tiny_models(recipe: &str) -> tempfile::TempDir {
    tiny_models_of(&TinyBert::random(7), recipe)
}

fn tiny_models_of(bert: &TinyBert, recipe: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("tiny");
    std::fs::create_dir(&folder).unwrap();
    bert.save(&folder);
    write_tokenizer(&folder);
    let catalog = format!(
        "[[model]]\nname = \"tiny\"\nkind = \"embedding\"\n{recipe}\n\
         files = [{{ name = \"model.safetensors\" }}, {{ name = \"config.json\" }}, {{ name = \"tokenizer.json\" }}]\n"
    );
    std::fs::write(dir.path().join("catalog.toml"), catalog).unwrap();
    dir
}

async fn tiny(dir: &Path) -> OnnxEmbedder {
    open(vec![dir.to_path_buf(), cache()], "tiny", "fp32").await.unwrap()
}

#[tokio::test]
async fn prefixes_apply_to_questions_and_passages() {
    let (plain, prefixed) =
        (tiny_models(""), tiny_models("query_prefix = \"w1 w2 \"\ndocument_prefix = \"w3 \"\npooling = \"cls\""));
    let pooled = tiny_models("pooling = \"cls\"");
    let (plain, prefixed, pooled) = (tiny(plain.path()).await, tiny(prefixed.path()).await, tiny(pooled.path()).await);
    let text = |it: &str| [it.to_string()];
    let question = prefixed.embed_query("w9 w8").await.unwrap();
    let passage = prefixed.embed_documents(&text("w9 w8")).await.unwrap().remove(0);
    assert_eq!(prefixed.embed_urgent(&text("w9 w8")).await.unwrap(), std::slice::from_ref(&passage));
    assert!(cosine(&question, &pooled.embed_query("w1 w2 w9 w8").await.unwrap()) > 0.9999);
    assert!(cosine(&passage, &pooled.embed_query("w3 w9 w8").await.unwrap()) > 0.9999);
    assert!(cosine(&question, &passage) < 0.9999);
    assert!(cosine(&plain.embed_query("w9").await.unwrap(), &pooled.embed_query("w9").await.unwrap()) < 0.9999);
    let prints = [plain.fingerprint(), prefixed.fingerprint(), pooled.fingerprint()];
    assert!(prints[0] != prints[1] && prints[1] != prints[2] && prints[0] != prints[2]);
}

#[tokio::test]
async fn truncated_vector_is_normalised_head() {
    let (whole, short) = (tiny_models(""), tiny_models("truncate_dim = 8"));
    let (whole, short) = (tiny(whole.path()).await, tiny(short.path()).await);
    assert_eq!((whole.dimension(), short.dimension()), (32, 8));
    let (long, head) = (whole.embed_query("w5 w6").await.unwrap(), short.embed_query("w5 w6").await.unwrap());
    let norm = long[..8].iter().map(|it| it * it).sum::<f32>().sqrt();
    assert!(head.iter().zip(&long).all(|(a, b)| (a - b / norm).abs() < 1e-5));
}

#[tokio::test]
async fn ready_made_network_matches_own_graph() {
    let dir = tiny_models("");
    let tiny = tiny(dir.path()).await;
    assert_ne!(tiny.precision(), Some("as it is"));
    let own = tiny.embed_query("w5 w6 w7").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    TinyBert::random(7).save_ready_made(folder.path());
    write_tokenizer(folder.path());
    for path in [folder.path().to_path_buf(), folder.path().join("model.onnx")] {
        let model = open(vec![cache()], path.to_str().unwrap(), "int8").await.unwrap();
        assert!(cosine(&own, &model.embed_query("w5 w6 w7").await.unwrap()) > 0.9999);
        assert_eq!(model.precision(), Some("as it is"), "the setting is ignored");
    }
    let error = open(vec![cache()], "/nowhere/model.onnx", "int8").await.err().unwrap();
    assert_eq!(error.code, ErrorCode::NotFound);
}

#[tokio::test]
async fn changed_weights_rewrite_graph() {
    let dir = tiny_models("");
    let before = tiny(dir.path()).await.embed_query("w5").await.unwrap();
    TinyBert::random(8).save(&dir.path().join("tiny"));
    let after = tiny(dir.path()).await.embed_query("w5").await.unwrap();
    assert!(cosine(&before, &after) < 0.9999);
}

#[tokio::test]
async fn refused_int8_model_stays_refused_until_refetched() {
    let dir = tiny_models("");
    let store = ModelStore::new(vec![dir.path().into(), cache()]);
    let network = ModelSpec::resolve(&store, "tiny").unwrap().network;
    let model = |precision| open(vec![dir.path().into(), cache()], "tiny", precision);
    quantization_check::record_outcome(&network, &Err(Error::internal("mean cosine 0.9000"))).unwrap();
    let error = model("int8").await.err().unwrap();
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::FailedPrecondition, "mean cosine 0.9000"));
    model("fp32").await.unwrap();
    quantization_check::record_outcome(&network, &Ok(1.0)).unwrap();
    model("int8").await.unwrap();
    quantization_check::record_outcome(&network, &Err(Error::internal("mean cosine 0.9000"))).unwrap();
    TinyBert::random(8).save(&dir.path().join("tiny"));
    model("int8").await.expect("changed weights are not refused");
}

/// Makes a tiny model that vic's own encoder supports, with heads of this width.
fn fitting(width: usize) -> TinyBert {
    TinyBert::shaped(TinyShape { hidden: 2 * width, heads: 2, layers: 2, inner: 128 }, 5)
}

#[tokio::test]
async fn own_encoder_matches_runtime_for_both_head_widths() {
    for width in [32, 64] {
        for recipe in ["pooling = \"mean\"", "pooling = \"cls\""] {
            let dir = tiny_models_of(&fitting(width), recipe);
            let dirs = || vec![dir.path().to_path_buf(), cache()];
            let own = open_with(dirs(), "tiny", "int8", EmbedEngine::Own).await.unwrap();
            let exact = open_with(dirs(), "tiny", "fp32", EmbedEngine::Auto).await.unwrap();
            let runtime = open_with(dirs(), "tiny", "int8", EmbedEngine::Onnx).await.unwrap();
            let prints = [own.fingerprint(), exact.fingerprint(), runtime.fingerprint()];
            assert!(prints[0] != prints[1] && prints[1] != prints[2] && prints[0] != prints[2]);
            for text in ["", "w5", "w5 w6 w7", &"w9 w8 w7 w6 w5 w4 w3 w2 w1 ".repeat(5), &"w1 ".repeat(200)] {
                let (got, expect) = (own.embed_query(text).await.unwrap(), exact.embed_query(text).await.unwrap());
                assert!(cosine(&got, &expect) > 0.99, "{width} {recipe} {text:.20}: {}", cosine(&got, &expect));
            }
        }
    }
}

#[tokio::test]
async fn unsupported_model_uses_runtime_or_is_rejected() {
    let dir = tiny_models("");
    let dirs = || vec![dir.path().to_path_buf(), cache()];
    let model = open_with(dirs(), "tiny", "int8", EmbedEngine::Auto).await.unwrap();
    assert_eq!(model.engine(), "onnxruntime");
    let error = open_with(dirs(), "tiny", "int8", EmbedEngine::Own).await.err().unwrap();
    assert_eq!(error.code, ErrorCode::FailedPrecondition);
    assert!(error.message.contains("32") && error.hint.is_some(), "{error}");
    let error = open_with(vec![cache()], "all-MiniLM-L6-v2", "fp32", EmbedEngine::Own).await.err().unwrap();
    assert!(error.message.contains("int8"), "{error}");
}

#[tokio::test]
async fn own_encoder_can_be_disabled() {
    let model = open_with(vec![cache()], "all-MiniLM-L6-v2", "int8", EmbedEngine::Onnx).await.unwrap();
    assert_eq!(model.engine(), "onnxruntime");
}

#[tokio::test]
async fn non_finite_weights_are_rejected_by_name() {
    let mut bert = fitting(32);
    bert.spoil("encoder.layer.1.output.dense.weight", f32::NAN);
    let dir = tiny_models_of(&bert, "");
    let error =
        open_with(vec![dir.path().to_path_buf(), cache()], "tiny", "int8", EmbedEngine::Own).await.err().unwrap();
    assert_eq!(error.code, ErrorCode::DataLoss);
    assert!(error.message.contains("encoder.layer.1.output.dense.weight"), "{error}");
}
