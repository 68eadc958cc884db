//! Tests that run complete networks with random weights on all kernels that this machine supports.

use std::convert::Infallible;
use std::sync::Arc;

use super::*;

const SHAPES: [Shape; 3] = [
    Shape { hidden: 64, inner: 128, heads: 2, layers: 2, epsilon: 1e-12 },
    Shape { hidden: 128, inner: 64, heads: 2, layers: 2, epsilon: 1e-5 },
    Shape { hidden: 192, inner: 320, heads: 6, layers: 3, epsilon: 1e-12 },
];

/// Returns a network with random weights, scaled so that the layers preserve the magnitude of activations.
fn network(shape: Shape, seed: u64) -> Arc<Network> {
    let mut random = fastrand::Rng::with_seed(seed);
    let tensor = |name: &str, size: &[usize]| {
        let (middle, spread) = match size {
            [_, inputs] => (0.0, 1.7 / (*inputs as f32).sqrt()),
            _ if name.ends_with("LayerNorm.weight") => (1.0, 0.2),
            _ => (0.0, 0.1),
        };
        Ok::<_, Infallible>((0..size.iter().product()).map(|_| middle + spread * (2.0 * random.f32() - 1.0)).collect())
    };
    let Ok(network) = Network::read(shape, tensor);
    Arc::new(network)
}

fn text(shape: Shape, tokens: usize, seed: u64) -> Vec<f32> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..tokens * shape.hidden).map(|_| 2.0 * random.f32() - 1.0).collect()
}

fn run(pass: &mut ForwardPass, text: &[f32]) -> Vec<f32> {
    let Ok(rows) = pass.run::<Infallible>(|buffer| {
        buffer.clear();
        buffer.extend_from_slice(text);
        Ok(())
    });
    rows.to_vec()
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

#[test]
fn fast_and_plain_kernels_give_same_rows() {
    let Some(fastest) = ProcessorKernels::fastest() else {
        println!("this processor has no fast kernels");
        return;
    };
    for shape in SHAPES {
        let network = network(shape, 1);
        let mut passes = [fastest, ProcessorKernels::plain()].map(|it| ForwardPass::new(network.clone(), it));
        for tokens in [1, 2, 13, 14, 15, 16, 17, 31, 32, 33, 43, 97] {
            let text = text(shape, tokens, tokens as u64);
            let [fast, plain] = passes.each_mut().map(|it| run(it, &text));
            assert_eq!(fast.len(), text.len());
            let rows = fast.chunks_exact(shape.hidden).zip(plain.chunks_exact(shape.hidden));
            let worst = rows.map(|(a, b)| cosine(a, b)).fold(1.0, f32::min);
            assert!(worst > 0.999, "{shape:?} {tokens}: {worst}");
        }
    }
}

#[test]
fn pass_reuse_does_not_change_result() {
    for processor in [Some(ProcessorKernels::plain()), ProcessorKernels::fastest()].into_iter().flatten() {
        let shape = SHAPES[0];
        let network = network(shape, 2);
        let mut used = ForwardPass::new(network.clone(), processor);
        for tokens in [70, 3, 33, 1, 64, 15] {
            let text = text(shape, tokens, tokens as u64);
            let fresh = run(&mut ForwardPass::new(network.clone(), processor), &text);
            assert_eq!(run(&mut used, &text), fresh, "{tokens}");
        }
    }
}

#[test]
fn empty_text_gives_no_rows() {
    let mut pass = ForwardPass::new(network(SHAPES[0], 3), ProcessorKernels::plain());
    assert!(run(&mut pass, &[]).is_empty());
}

#[test]
fn attention_ignores_order_of_other_tokens() {
    // Swapping two tokens must swap their rows and keep the others, because without position embeddings the order does not
    // matter.
    let shape = SHAPES[1];
    let mut pass =
        ForwardPass::new(network(shape, 4), ProcessorKernels::fastest().unwrap_or(ProcessorKernels::plain()));
    let mut text = text(shape, 40, 4);
    let before = run(&mut pass, &text);
    let (head, tail) = text.split_at_mut(20 * shape.hidden);
    head[..shape.hidden].swap_with_slice(&mut tail[..shape.hidden]);
    let after = run(&mut pass, &text);
    let row = |rows: &[f32], at: usize| rows[at * shape.hidden..(at + 1) * shape.hidden].to_vec();
    assert!(cosine(&row(&before, 0), &row(&after, 20)) > 0.9999);
    assert!(cosine(&row(&before, 20), &row(&after, 0)) > 0.9999);
    assert!(cosine(&row(&before, 33), &row(&after, 33)) > 0.9999);
}

#[test]
fn unsupported_shape_is_refused_with_reason() {
    assert!(SHAPES.iter().all(|it| it.obstacle().is_none()));
    let refused = |shape: Shape, word: &str| assert!(shape.obstacle().is_some_and(|it| it.contains(word)), "{shape:?}");
    refused(Shape { hidden: 312, ..SHAPES[0] }, "312");
    refused(Shape { inner: 100, ..SHAPES[0] }, "100");
    refused(Shape { inner: 0, ..SHAPES[0] }, "0");
    refused(Shape { heads: 1, hidden: 128, ..SHAPES[0] }, "128");
    refused(Shape { heads: 4, ..SHAPES[0] }, "16");
    refused(Shape { heads: 0, ..SHAPES[0] }, "heads");
}
