//! Conversions of corpus calls, which carry JSON as text.

use crate::error::{Error, ErrorCode};
use crate::model::{CorpusCall, CorpusReply};
use crate::proto::{json, wire};

impl TryFrom<wire::CorpusRequest> for CorpusCall {
    type Error = Error;

    fn try_from(call: wire::CorpusRequest) -> Result<CorpusCall, Error> {
        let request = match call.request_json.trim() {
            "" => serde_json::Map::new(),
            text => json::json(text.as_bytes())?,
        };
        Ok(CorpusCall { verb: call.verb, request })
    }
}

impl From<CorpusCall> for wire::CorpusRequest {
    fn from(call: CorpusCall) -> wire::CorpusRequest {
        wire::CorpusRequest { verb: call.verb, request_json: serde_json::Value::Object(call.request).to_string() }
    }
}

impl From<CorpusReply> for wire::CorpusResponse {
    fn from(reply: CorpusReply) -> wire::CorpusResponse {
        let CorpusReply { media_type, text, refused, accepted } = reply;
        wire::CorpusResponse {
            media_type,
            text,
            refused: refused.map(|it| it.name().into()).unwrap_or_default(),
            accepted,
        }
    }
}

impl TryFrom<wire::CorpusResponse> for CorpusReply {
    type Error = Error;

    fn try_from(reply: wire::CorpusResponse) -> Result<CorpusReply, Error> {
        let wire::CorpusResponse { media_type, text, refused, accepted } = reply;
        let refused = match refused.as_str() {
            "" => None,
            // An unknown code of a newer vic.
            name => Some(ErrorCode::ALL.into_iter().find(|it| it.name() == name).unwrap_or(ErrorCode::Internal)),
        };
        Ok(CorpusReply { media_type, text, refused, accepted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpus_calls_and_replies_round_trip() {
        let serde_json::Value::Object(request) = serde_json::json!({"schema": "Code", "limit": 3}) else {
            panic!("an object")
        };
        let call = CorpusCall { verb: "extract".into(), request };
        assert_eq!(CorpusCall::try_from(wire::CorpusRequest::from(call.clone())).unwrap(), call);
        let reply = CorpusReply {
            media_type: "text/csv".into(),
            text: "a,b".into(),
            refused: Some(ErrorCode::NotFound),
            accepted: true,
        };
        assert_eq!(CorpusReply::try_from(wire::CorpusResponse::from(reply.clone())).unwrap(), reply);
        let broken = wire::CorpusRequest { verb: "extract".into(), request_json: "[1]".into() };
        assert!(CorpusCall::try_from(broken).is_err());
    }
}
