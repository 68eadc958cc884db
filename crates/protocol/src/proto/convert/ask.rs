//! Conversions of questions, plans, answers, searches and audit records between model and wire types.

use crate::error::{Error, Result};
use crate::model;
use crate::proto::convert::{WireEnum, into_all, missing_field_error, try_into_all};
use crate::proto::wire;

impl From<model::AskRequest> for wire::AskRequest {
    fn from(it: model::AskRequest) -> wire::AskRequest {
        wire::AskRequest {
            query: it.query,
            privacy_mode: it.privacy_mode.map_or(0, WireEnum::encode),
            warehouse_root: it.warehouse_root,
            limit: it.limit,
            offset: it.offset,
            filters: Some(it.filters.into()),
            explain: it.explain,
            words_only: it.words_only,
            plain_words: it.plain_words,
            plan: it.plan.map(Into::into),
        }
    }
}

impl TryFrom<wire::AskRequest> for model::AskRequest {
    type Error = Error;

    fn try_from(it: wire::AskRequest) -> Result<model::AskRequest> {
        Ok(model::AskRequest {
            query: it.query,
            privacy_mode: WireEnum::decode(it.privacy_mode)?,
            warehouse_root: it.warehouse_root,
            limit: it.limit,
            offset: it.offset,
            filters: it.filters.map(Into::into).unwrap_or_default(),
            explain: it.explain,
            words_only: it.words_only,
            plain_words: it.plain_words,
            plan: it.plan.map(TryInto::try_into).transpose()?,
        })
    }
}

impl From<model::QueryPlan> for wire::QueryPlan {
    fn from(it: model::QueryPlan) -> wire::QueryPlan {
        wire::QueryPlan {
            intent: it.intent,
            l0_filters: it.l0_filters.map(Into::into),
            l1_query_text: it.l1_query_text,
            l1_threshold: it.l1_threshold,
            date_order: it.date_order.map_or(0, WireEnum::encode),
            requires_l2: it.requires_l2,
            l2_skills: it.l2_skills,
            l2_top_k: it.l2_top_k,
            privacy_mode: it.privacy_mode.encode(),
            raw_user_text: it.raw_user_text,
            planner_model_id: it.planner_model_id,
        }
    }
}

impl TryFrom<wire::QueryPlan> for model::QueryPlan {
    type Error = Error;

    fn try_from(it: wire::QueryPlan) -> Result<model::QueryPlan> {
        Ok(model::QueryPlan {
            intent: it.intent,
            l0_filters: it.l0_filters.map(Into::into),
            l1_query_text: it.l1_query_text,
            l1_threshold: it.l1_threshold,
            date_order: WireEnum::decode(it.date_order)?,
            requires_l2: it.requires_l2,
            l2_skills: it.l2_skills,
            l2_top_k: it.l2_top_k,
            privacy_mode: WireEnum::require(it.privacy_mode)?,
            raw_user_text: it.raw_user_text,
            planner_model_id: it.planner_model_id,
        })
    }
}

impl From<model::SearchHit> for wire::SearchHit {
    fn from(it: model::SearchHit) -> wire::SearchHit {
        wire::SearchHit {
            path: it.path,
            score: it.score,
            tier: it.tier,
            layers: it.layers,
            excerpt: it.excerpt,
            metadata_json: serde_json::Value::Object(it.metadata).to_string(),
            reasoning: it.reasoning,
        }
    }
}

impl TryFrom<wire::SearchHit> for model::SearchHit {
    type Error = Error;

    fn try_from(it: wire::SearchHit) -> Result<model::SearchHit> {
        let metadata = match it.metadata_json.as_str() {
            "" => serde_json::Map::new(),
            json => serde_json::from_str(json)
                .map_err(|error| Error::invalid(format!("metadata_json is not a JSON object: {error}")))?,
        };
        Ok(model::SearchHit {
            path: it.path,
            score: it.score,
            tier: it.tier,
            layers: it.layers,
            excerpt: it.excerpt,
            metadata,
            reasoning: it.reasoning,
        })
    }
}

impl From<model::AnswerQuote> for wire::AnswerQuote {
    fn from(it: model::AnswerQuote) -> wire::AnswerQuote {
        let model::AnswerQuote { hit, text, place, checked } = it;
        wire::AnswerQuote { hit, text, place, checked }
    }
}

impl From<wire::AnswerQuote> for model::AnswerQuote {
    fn from(it: wire::AnswerQuote) -> model::AnswerQuote {
        let wire::AnswerQuote { hit, text, place, checked } = it;
        model::AnswerQuote { hit, text, place, checked }
    }
}

impl From<model::Answer> for wire::Answer {
    fn from(it: model::Answer) -> wire::Answer {
        let model::Answer { outcome, confidence, quotes } = it;
        wire::Answer { outcome: outcome.encode(), confidence, quotes: into_all(quotes) }
    }
}

impl TryFrom<wire::Answer> for model::Answer {
    type Error = Error;

    fn try_from(it: wire::Answer) -> Result<model::Answer> {
        let wire::Answer { outcome, confidence, quotes } = it;
        Ok(model::Answer { outcome: WireEnum::require(outcome)?, confidence, quotes: into_all(quotes) })
    }
}

impl From<model::AskResponse> for wire::AskResponse {
    fn from(it: model::AskResponse) -> wire::AskResponse {
        wire::AskResponse {
            query_plan: Some(it.query_plan.into()),
            hits: into_all(it.hits),
            answer_summary: it.answer_summary,
            answer: it.answer.map(Into::into),
            warnings: it.warnings,
            stats: it.stats.map(Into::into),
        }
    }
}

impl TryFrom<wire::AskResponse> for model::AskResponse {
    type Error = Error;

    fn try_from(it: wire::AskResponse) -> Result<model::AskResponse> {
        Ok(model::AskResponse {
            query_plan: it.query_plan.ok_or_else(|| missing_field_error("query_plan"))?.try_into()?,
            hits: try_into_all(it.hits)?,
            answer_summary: it.answer_summary,
            answer: it.answer.map(TryInto::try_into).transpose()?,
            warnings: it.warnings,
            stats: it.stats.map(Into::into),
        })
    }
}

impl From<model::AskEvent> for wire::AskEvent {
    fn from(it: model::AskEvent) -> wire::AskEvent {
        use wire::ask_event::Event;
        let event = match it {
            model::AskEvent::Plan(plan) => Event::Plan((*plan).into()),
            model::AskEvent::Hits(hits) => Event::Hits(wire::Hits { hits: into_all(hits) }),
            model::AskEvent::Text(text) => Event::Text(text),
            model::AskEvent::Done(response) => Event::Done((*response).into()),
        };
        wire::AskEvent { event: Some(event) }
    }
}

impl TryFrom<wire::AskEvent> for model::AskEvent {
    type Error = Error;

    fn try_from(it: wire::AskEvent) -> Result<model::AskEvent> {
        use wire::ask_event::Event;
        Ok(match it.event.ok_or_else(|| missing_field_error("event"))? {
            Event::Plan(plan) => model::AskEvent::Plan(Box::new(plan.try_into()?)),
            Event::Hits(hits) => model::AskEvent::Hits(try_into_all(hits.hits)?),
            Event::Text(text) => model::AskEvent::Text(text),
            Event::Done(response) => model::AskEvent::Done(Box::new(response.try_into()?)),
        })
    }
}

impl From<model::SimilarRequest> for wire::SimilarRequest {
    fn from(it: model::SimilarRequest) -> wire::SimilarRequest {
        let model::SimilarRequest { path, warehouse_root, limit, offset, filters } = it;
        wire::SimilarRequest { path, warehouse_root, limit, offset, filters: Some(filters.into()) }
    }
}

impl From<wire::SimilarRequest> for model::SimilarRequest {
    fn from(it: wire::SimilarRequest) -> model::SimilarRequest {
        let wire::SimilarRequest { path, warehouse_root, limit, offset, filters } = it;
        model::SimilarRequest {
            path,
            warehouse_root,
            limit,
            offset,
            filters: filters.map(Into::into).unwrap_or_default(),
        }
    }
}

impl From<model::GrepRequest> for wire::GrepRequest {
    fn from(it: model::GrepRequest) -> wire::GrepRequest {
        let model::GrepRequest { pattern, ignore_case, fixed, fold, warehouse_root, limit, before, after, filters } =
            it;
        let filters = Some(filters.into());
        wire::GrepRequest { pattern, ignore_case, fixed, fold, warehouse_root, limit, before, after, filters }
    }
}

impl From<wire::GrepRequest> for model::GrepRequest {
    fn from(it: wire::GrepRequest) -> model::GrepRequest {
        let wire::GrepRequest { pattern, ignore_case, fixed, fold, warehouse_root, limit, before, after, filters } = it;
        let filters = filters.map(Into::into).unwrap_or_default();
        model::GrepRequest { pattern, ignore_case, fixed, fold, warehouse_root, limit, before, after, filters }
    }
}

impl From<model::GrepMatch> for wire::GrepMatch {
    fn from(it: model::GrepMatch) -> wire::GrepMatch {
        let model::GrepMatch { path, absolute_path, anchor, line, start, end, before, after } = it;
        wire::GrepMatch { path, absolute_path, anchor: Some(anchor.into()), line, start, end, before, after }
    }
}

impl From<wire::GrepMatch> for model::GrepMatch {
    fn from(it: wire::GrepMatch) -> model::GrepMatch {
        let wire::GrepMatch { path, absolute_path, anchor, line, start, end, before, after } = it;
        let anchor = anchor.map(Into::into).unwrap_or_default();
        model::GrepMatch { path, absolute_path, anchor, line, start, end, before, after }
    }
}

impl From<model::GrepResponse> for wire::GrepResponse {
    fn from(it: model::GrepResponse) -> wire::GrepResponse {
        let model::GrepResponse { matches, files_searched, truncated, warnings } = it;
        wire::GrepResponse { matches: into_all(matches), files_searched, truncated, warnings }
    }
}

impl From<wire::GrepResponse> for model::GrepResponse {
    fn from(it: wire::GrepResponse) -> model::GrepResponse {
        let wire::GrepResponse { matches, files_searched, truncated, warnings } = it;
        model::GrepResponse { matches: into_all(matches), files_searched, truncated, warnings }
    }
}

impl From<model::AuditRecord> for wire::AuditRecord {
    fn from(it: model::AuditRecord) -> wire::AuditRecord {
        let model::AuditRecord { time_ms, destination, bytes, purpose, privacy_mode, allowed } = it;
        wire::AuditRecord { time_ms, destination, bytes, purpose, privacy_mode: privacy_mode.encode(), allowed }
    }
}

impl TryFrom<wire::AuditRecord> for model::AuditRecord {
    type Error = Error;

    fn try_from(it: wire::AuditRecord) -> Result<model::AuditRecord> {
        let wire::AuditRecord { time_ms, destination, bytes, purpose, privacy_mode, allowed } = it;
        let privacy_mode = WireEnum::require(privacy_mode)?;
        Ok(model::AuditRecord { time_ms, destination, bytes, purpose, privacy_mode, allowed })
    }
}
