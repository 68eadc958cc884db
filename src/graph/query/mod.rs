//! Graph queries: parses AxQL and `query_ir_v1`, checks their types, plans and executes them.

pub(in crate::graph) mod answer;
pub(in crate::graph) mod automaton;
pub mod axql;
pub(in crate::graph) mod execute;
pub mod ir;
pub(in crate::graph) mod plan;
pub(in crate::graph) mod text_match;
pub(in crate::graph) mod typecheck;
