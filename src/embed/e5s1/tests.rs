//! A tiny model with random weights in the format E5S1, and tests of damaged files.

use super::*;

/// The sizes of [`tiny_model`], which vic's own encoder supports.
pub(crate) const TINY: Sizes =
    Sizes { hidden: 64, layers: 2, heads: 2, inner: 128, vocabulary: 16, positions: 32, segments: 2, epsilon: 1e-12 };

/// Returns a tokenizer with ten pieces besides the special ones.
pub(crate) fn tiny_pieces() -> Pieces {
    let special = ["<s>", "<pad>", "</s>", "<unk>"].map(|it| (it.to_string(), 0.0));
    let scored = [
        ("▁", -3.0),
        ("▁ab", -4.0),
        ("a", -5.0),
        ("b", -5.0),
        ("▁a", -4.0),
        ("fi", -5.0),
        ("é", -6.0),
        ("<", -6.0),
        ("s", -6.0),
        (">", -6.0),
    ];
    let scored = special.into_iter().chain(scored.map(|(text, score)| (text.to_string(), score))).collect();
    let characters = vec![('\u{1}', String::new()), ('\t', " ".into()), ('ﬁ', "fi".into()), ('\u{a0}', " ".into())];
    Pieces { scored, start: 0, end: 2, unknown: 3, characters }
}

/// Returns the names, shapes and 4-bit flags of the tensors.
pub(crate) fn tensor_names(sizes: &Sizes) -> Vec<(String, usize, bool)> {
    let Sizes { hidden, inner, .. } = *sizes;
    let mut names = vec![
        ("emb.word".to_string(), sizes.vocabulary * hidden, true),
        ("emb.pos".into(), sizes.positions * hidden, false),
        ("emb.type".into(), sizes.segments * hidden, false),
        ("emb.ln.w".into(), hidden, false),
        ("emb.ln.b".into(), hidden, false),
    ];
    for layer in 0..sizes.layers {
        for (part, outputs, inputs) in
            [("q", hidden, hidden), ("k", hidden, hidden), ("v", hidden, hidden), ("ao", hidden, hidden)]
                .into_iter()
                .chain([("fi", inner, hidden), ("fo", hidden, inner)])
        {
            names.push((format!("l{layer}.{part}.w"), outputs * inputs, true));
            names.push((format!("l{layer}.{part}.b"), outputs, false));
        }
        for part in ["aln.w", "aln.b", "oln.w", "oln.b"] {
            names.push((format!("l{layer}.{part}"), hidden, false));
        }
    }
    names
}

/// Returns the bytes of a model with random weights.
pub(crate) fn tiny_model(seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let (sizes, pieces) = (TINY, tiny_pieces());
    let mut head = b"E5S1".to_vec();
    let mut put = |numbers: &[i64]| numbers.iter().for_each(|it| head.extend((*it as i32).to_le_bytes()));
    let Sizes { hidden, layers, heads, inner, vocabulary, positions, segments, epsilon } = sizes;
    put(&[1, hidden as i64, layers as i64, heads as i64, inner as i64, vocabulary as i64]);
    put(&[positions as i64, segments as i64, i64::from(epsilon.to_bits().cast_signed()), 32]);
    put(&[pieces.scored.len() as i64, 0, 2, 1, 3]);
    let text: String = pieces.scored.iter().map(|it| it.0.as_str()).collect();
    head.extend((text.len() as u64).to_le_bytes());
    let mut at = 0;
    for length in std::iter::once(0).chain(pieces.scored.iter().map(|it| it.0.len())) {
        at += length;
        head.extend((at as u32).to_le_bytes());
    }
    pieces.scored.iter().for_each(|it| head.extend(it.1.to_le_bytes()));
    head.extend(text.as_bytes());
    head.extend((pieces.characters.len() as u32).to_le_bytes());
    head.extend(0u32.to_le_bytes());
    for (from, to) in &pieces.characters {
        head.extend((*from as u32).to_le_bytes());
        head.push(to.chars().count() as u8);
        to.chars().for_each(|it| head.extend((it as u32).to_le_bytes()));
    }
    let names = tensor_names(&sizes);
    head.extend((names.len() as u32).to_le_bytes());
    let directory: usize = names.iter().map(|it| 2 + it.0.len() + 1 + 4 + 16).sum();
    let start = (head.len() + directory).next_multiple_of(64);
    let mut data = Vec::new();
    for (name, count, blocks) in &names {
        let before = data.len();
        match blocks {
            true => (0..count / BLOCK).for_each(|_| {
                data.extend(f16::from_f32(0.01 + 0.03 * random.f32()).to_le_bytes());
                data.extend((0..BLOCK / 2).map(|_| random.u8(..)));
            }),
            false => (0..*count).for_each(|_| {
                let middle = if name.ends_with("ln.w") { 1.0 } else { 0.0 };
                data.extend((middle + 0.2 * (random.f32() - 0.5)).to_le_bytes());
            }),
        }
        head.extend((name.len() as u16).to_le_bytes());
        head.extend(name.as_bytes());
        head.push(u8::from(*blocks));
        head.extend((*count as u32).to_le_bytes());
        head.extend(((start + before) as u64).to_le_bytes());
        head.extend(((data.len() - before) as u64).to_le_bytes());
    }
    head.resize(start, 0);
    head.extend(data);
    head
}

fn open(bytes: &[u8]) -> Result<E5Model> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    E5Model::open(file.path())
}

#[test]
fn model_is_read_with_sizes_pieces_and_rows() {
    let model = open(&tiny_model(1)).unwrap();
    assert_eq!((model.sizes, &model.pieces), (TINY, &tiny_pieces()));
    let row = model.rows("emb.word", 3..5, TINY.hidden).unwrap();
    assert_eq!(row.len(), 2 * TINY.hidden);
    assert!(row.iter().all(|it| it.abs() <= 8.0 * 0.041) && row.iter().any(|it| *it != 0.0));
    assert!(model.rows("emb.word", 0..17, TINY.hidden).is_err() && model.rows("none", 0..1, 64).is_err());
}

#[test]
fn block_has_low_halves_first() {
    let mut block = f16::from_f32(0.5).to_le_bytes().to_vec();
    block.extend([0x19; 16]);
    let numbers = decode_blocks(&block);
    assert_eq!((numbers[0], numbers[15], numbers[16], numbers[31]), (0.5, 0.5, -3.5, -3.5));
}

#[test]
fn cut_or_foreign_file_is_refused_without_panic() {
    let whole = tiny_model(2);
    for length in (0..whole.len()).step_by(997).chain([whole.len() - 1]) {
        let error = open(&whole[..length]).err().unwrap_or_else(|| panic!("{length} bytes are accepted"));
        assert_eq!(error.code, ErrorCode::DataLoss);
        assert!(error.hint.is_some_and(|it| it.contains("vic models pull")));
    }
    for at in (0..whole.len().min(600)).step_by(5) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x80;
        // Some bytes are only numbers, so the file may be accepted; it must not panic or exhaust memory.
        let _ = open(&damaged);
    }
}
