//! Conversions of table queries and their results between model and wire types.

use crate::error::{Error, Result};
use crate::model;
use crate::proto::convert::{WireEnum, into_all, try_into_all};
use crate::proto::wire;

impl From<model::TableAggregate> for wire::TableAggregate {
    fn from(it: model::TableAggregate) -> wire::TableAggregate {
        wire::TableAggregate { function: it.function.encode(), column: it.column }
    }
}

impl TryFrom<wire::TableAggregate> for model::TableAggregate {
    type Error = Error;

    fn try_from(it: wire::TableAggregate) -> Result<model::TableAggregate> {
        Ok(model::TableAggregate { function: WireEnum::require(it.function)?, column: it.column })
    }
}

impl From<model::TableRequest> for wire::TableRequest {
    fn from(it: model::TableRequest) -> wire::TableRequest {
        wire::TableRequest {
            path: it.path,
            sheet: it.sheet,
            table: it.table,
            filter: it.filter,
            group_by: it.group_by,
            per: it.per.map_or(0, WireEnum::encode),
            aggregates: into_all(it.aggregates),
            top: it.top,
            by: it.by,
            ascending: it.ascending,
            limit: it.limit,
            decimal: it.decimal,
            head_rows: it.head_rows,
            offset: it.offset,
        }
    }
}

impl TryFrom<wire::TableRequest> for model::TableRequest {
    type Error = Error;

    fn try_from(it: wire::TableRequest) -> Result<model::TableRequest> {
        Ok(model::TableRequest {
            path: it.path,
            sheet: it.sheet,
            table: it.table,
            filter: it.filter,
            group_by: it.group_by,
            per: WireEnum::decode(it.per)?,
            aggregates: try_into_all(it.aggregates)?,
            top: it.top,
            by: it.by,
            ascending: it.ascending,
            limit: it.limit,
            decimal: it.decimal,
            head_rows: it.head_rows,
            offset: it.offset,
        })
    }
}

impl From<model::TableRow> for wire::TableRow {
    fn from(it: model::TableRow) -> wire::TableRow {
        wire::TableRow { place: it.place, anchor: Some(it.anchor.into()), cells: it.cells }
    }
}

impl From<wire::TableRow> for model::TableRow {
    fn from(it: wire::TableRow) -> model::TableRow {
        model::TableRow { place: it.place, anchor: it.anchor.map(Into::into).unwrap_or_default(), cells: it.cells }
    }
}

/// Implements both conversions for messages that contain lists of other messages.
macro_rules! nested {
    ($($name:ident { $($field:ident),* ; $($list:ident),* })+) => { $(
        impl From<model::$name> for wire::$name {
            fn from(it: model::$name) -> wire::$name {
                let model::$name { $($field,)* $($list),* } = it;
                wire::$name { $($field,)* $($list: into_all($list)),* }
            }
        }
        impl From<wire::$name> for model::$name {
            fn from(it: wire::$name) -> model::$name {
                let wire::$name { $($field,)* $($list),* } = it;
                model::$name { $($field,)* $($list: into_all($list)),* }
            }
        }
    )+ };
}

nested! {
    TableLeftOut { reason, cells; examples }
    TableValue { function, column, value, unit, exact, rows, evidence; left_out }
    TableGroup { key, rows; result }
    TableResponse {
        path, tables, table, name, head_rows, total_rows, matched_rows, total_groups, warnings, truncated, sheets;
        columns, rows, groups, result
    }
}
