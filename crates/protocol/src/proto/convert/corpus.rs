//! Conversions of calls of the corpus API between model and wire types; requests and replies are JSON text on the wire.

use crate::error::{Error, ErrorCode};
use crate::model::{CorpusReply, CorpusRequest};
use crate::proto::{json, wire};

impl TryFrom<wire::CorpusRequest> for CorpusRequest {
    type Error = Error;

    fn try_from(call: wire::CorpusRequest) -> Result<CorpusRequest, Error> {
        let request = match call.request_json.trim() {
            "" => serde_json::Map::new(),
            text => json::parse_object(text.as_bytes())?,
        };
        Ok(CorpusRequest { verb: call.verb, request })
    }
}

impl From<CorpusRequest> for wire::CorpusRequest {
    fn from(call: CorpusRequest) -> wire::CorpusRequest {
        wire::CorpusRequest { verb: call.verb, request_json: serde_json::Value::Object(call.request).to_string() }
    }
}

impl From<CorpusReply> for wire::CorpusResponse {
    fn from(reply: CorpusReply) -> wire::CorpusResponse {
        let CorpusReply { media_type, text, error_code: refused, accepted } = reply;
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
            // Treat an unknown code as internal, because a newer vic may send codes that this version does not know.
            name => Some(ErrorCode::ALL.into_iter().find(|it| it.name() == name).unwrap_or(ErrorCode::Internal)),
        };
        Ok(CorpusReply { media_type, text, error_code: refused, accepted })
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
        let call = CorpusRequest { verb: "extract".into(), request };
        assert_eq!(CorpusRequest::try_from(wire::CorpusRequest::from(call.clone())).unwrap(), call);
        let reply = CorpusReply {
            media_type: "text/csv".into(),
            text: "a,b".into(),
            error_code: Some(ErrorCode::NotFound),
            accepted: true,
        };
        assert_eq!(CorpusReply::try_from(wire::CorpusResponse::from(reply.clone())).unwrap(), reply);
        let broken = wire::CorpusRequest { verb: "extract".into(), request_json: "[1]".into() };
        assert!(CorpusRequest::try_from(broken).is_err());
    }
}
