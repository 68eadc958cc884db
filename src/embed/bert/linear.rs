//! A linear layer with 8-bit weights, in the memory layout that [`Kernels::dot`] needs.
//!
//! [`Kernels::dot`]: vic_kernels::encoder::Kernels::dot

use vic_kernels::encoder::{LANES, OutputScales, PANEL, PanelLine, panel_lines, weight_position};

/// The maximum absolute value of a quantised weight.
const MAX_WEIGHT: f32 = 127.0;

/// A linear layer `y = W x + b`, with one quantisation step per output.
pub(super) struct Linear {
    inputs: usize,
    panels: Vec<PanelLine>,
    outputs: Vec<OutputScales>,
}

impl Linear {
    /// Makes a layer with quantised weights from `weights`, which are given output by output, as in the model file. The
    /// number of inputs must be a multiple of [`STEP`](vic_kernels::encoder::STEP), the number of outputs a multiple of
    /// [`PANEL`].
    pub(super) fn new(weights: &[f32], bias: &[f32]) -> Linear {
        let inputs = weights.len() / bias.len();
        let lines = panel_lines(inputs);
        let mut panels = vec![PanelLine::ZERO; bias.len() / PANEL * lines];
        let mut outputs =
            vec![OutputScales { step: [0.0; LANES], sum: [0.0; LANES], bias: [0.0; LANES] }; bias.len() / LANES];
        for (output, (weights, bias)) in weights.chunks_exact(inputs).zip(bias).enumerate() {
            let step = weights.iter().fold(0f32, |most, it| most.max(it.abs())) / MAX_WEIGHT;
            let inverse = if step > 0.0 { 1.0 / step } else { 0.0 };
            let panel = &mut panels[output / PANEL * lines..][..lines];
            let mut sum = 0i32;
            for (input, weight) in weights.iter().enumerate() {
                let steps = (weight * inverse).round_ties_even() as i8;
                let (line, at) = weight_position(input, output % PANEL);
                panel[line].0[at] = steps.cast_unsigned();
                sum += i32::from(steps);
            }
            let (group, lane) = (&mut outputs[output / LANES], output % LANES);
            group.step[lane] = step;
            group.sum[lane] = sum as f32 * step;
            group.bias[lane] = *bias;
        }
        Linear { inputs, panels, outputs }
    }

    /// Returns the number of inputs, which is the length of an input row.
    pub(super) fn inputs(&self) -> usize {
        self.inputs
    }

    /// Returns the number of outputs, which is the length of an output row.
    pub(super) fn width(&self) -> usize {
        self.outputs.len() * LANES
    }

    /// Returns the quantised weights, panel by panel.
    pub(super) fn panels(&self) -> impl Iterator<Item = &[PanelLine]> {
        self.panels.chunks_exact(panel_lines(self.inputs))
    }

    /// Returns the scales and biases with which the sums of a product are dequantised.
    pub(super) fn outputs(&self) -> &[OutputScales] {
        &self.outputs
    }

    /// Returns the size of the layer in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(self.panels.as_slice()) + size_of_val(self.outputs.as_slice())
    }
}
