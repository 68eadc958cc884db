//! Adds the column of analysed terms to a table of an older vic, whose keyword index analysed the text itself.
//!
//! The first change of the table, or its first maintenance, adds the column and indexes it. Until then, and while that runs,
//! the old index answers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{RecordBatch, StringArray};
use arrow::datatypes::Schema;
use lance::dataset::{BatchUDF, NewColumnTransform};

use crate::error::Result;
use crate::store::lance::LanceStore;
use crate::store::lance_error::StoreContext;
use crate::store::schema::{string_column, terms_field};
use crate::store::{indexes, schema};

/// Adds the column of analysed terms, and indexes it, if the table lacks it. The caller holds the writer lock.
pub(super) async fn add_terms(store: &LanceStore) -> Result<()> {
    if store.has_terms.load(Ordering::Relaxed) {
        return Ok(());
    }
    store.set_step("analysing the words of all text");
    tracing::info!("the index of words is rebuilt for all languages; the old one answers meanwhile");
    let output = Arc::new(Schema::new(vec![terms_field()]));
    let analyse = BatchUDF {
        mapper: {
            let output = output.clone();
            Box::new(move |batch| analyse_batch(batch, output.clone()))
        },
        output_schema: output,
        result_checkpoint: None,
    };
    let read = vec!["file_id".to_owned(), "text".to_owned()];
    let columns = NewColumnTransform::BatchUDF(analyse);
    let added = store.table.add_columns().transform(columns).read_columns(read).execute().await;
    added.on("add the words of", &store.dir)?;
    indexes::ensure_keyword_index(&store.table).await.on("update keywords in", &store.dir)?;
    store.commit_durable().await?;
    // The index of the text stays until the next maintenance, because a query may have chosen it just before.
    store.has_terms.store(true, Ordering::Relaxed);
    Ok(())
}

fn analyse_batch(batch: &RecordBatch, output: Arc<Schema>) -> lance::Result<RecordBatch> {
    let failed = |error: crate::error::Error| lance::Error::invalid_input(error.to_string());
    let (files, texts) = (schema::file_ids(batch).map_err(failed)?, string_column(batch, "text").map_err(failed)?);
    let mut terms = Vec::with_capacity(batch.num_rows());
    let mut start = 0;
    // The passages of a file tell its language together.
    while start < batch.num_rows() {
        let file = files.value(start);
        let end = (start..batch.num_rows()).find(|it| files.value(*it) != file).unwrap_or(batch.num_rows());
        terms.extend(vic_words::passage_terms((start..end).map(|it| texts.value(it))));
        start = end;
    }
    let column = StringArray::from_iter_values(terms.into_iter().map(|it| it.join(" ")));
    Ok(RecordBatch::try_new(output, vec![Arc::new(column)])?)
}
