//! A gRPC client for tests of the wire format: one call per HTTP/2 connection, with any authority and any bytes.

use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body_util::BodyExt;
use hyper::Request;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::support::harness::World;

/// Time limit of a call or a stream. The test fails at this limit.
const PATIENCE: Duration = Duration::from_secs(60);

/// The response to a gRPC call.
#[derive(Debug)]
pub(crate) struct CallResponse {
    pub(crate) status: u16,
    /// The gRPC status code; 0 is success. None if the response has no status.
    pub(crate) code: Option<u32>,
    pub(crate) headers: String,
    pub(crate) body: Vec<u8>,
}

/// Calls a method such as `/vic.v1.Vic/GetStatus` with an encoded message.
pub(crate) fn call(
    world: &World,
    authority: &str,
    method: &str,
    headers: &[(&str, &str)],
    message: &[u8],
) -> CallResponse {
    call_with_length(world, authority, method, headers, (message.len() as u32, message))
}

/// Like [`call`], but announces this message length instead of the real one.
pub(crate) fn call_with_length(
    world: &World,
    authority: &str,
    method: &str,
    headers: &[(&str, &str)],
    message: (u32, &[u8]),
) -> CallResponse {
    call_over(world, tokio::net::TcpStream::connect(world.listen()), (authority, method), headers, message)
}

/// Like [`call`], over the Unix socket of the daemon.
pub(crate) fn call_socket(world: &World, method: &str, headers: &[(&str, &str)], message: &[u8]) -> CallResponse {
    let connecting = tokio::net::UnixStream::connect(world.data().join("vicd.sock"));
    call_over(world, connecting, ("localhost", method), headers, (message.len() as u32, message))
}

fn call_over<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    world: &World,
    connecting: impl Future<Output = std::io::Result<S>>,
    (authority, method): (&str, &str),
    headers: &[(&str, &str)],
    (length, message): (u32, &[u8]),
) -> CallResponse {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let called = async {
        let stream = TokioIo::new(connecting.await.unwrap());
        let (mut sender, connection) = http2::handshake::<_, _, Body>(TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::post(format!("http://{authority}{method}")).header("te", "trailers");
        if !headers.iter().any(|(name, _)| *name == "content-type") {
            request = request.header("content-type", "application/grpc");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut framed = vec![0];
        framed.extend(length.to_be_bytes());
        framed.extend(message);
        let response = sender.send_request(request.body(Body::from(framed)).unwrap()).await.unwrap();
        let (head, body) = response.into_parts();
        let collected = body.collect().await.unwrap();
        let trailers = collected.trailers().cloned().unwrap_or_default();
        let code = head.headers.get("grpc-status").or(trailers.get("grpc-status"));
        let code = code.map(|it| it.to_str().unwrap().parse().unwrap());
        let headers = format!("{:?} {trailers:?}", head.headers);
        let bytes: Bytes = collected.to_bytes();
        CallResponse { status: head.status.as_u16(), code, headers, body: bytes.to_vec() }
    };
    let called = runtime.block_on(async { tokio::time::timeout(PATIENCE, called).await });
    called.unwrap_or_else(|_| panic!("no answer to {method} within {PATIENCE:?}\n{}", world.log()))
}

/// Encodes a string field of a protobuf message.
pub(crate) fn string_field(number: u8, value: &str) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    let mut length = value.len();
    while length >= 0x80 {
        field.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    field.push(length as u8);
    field.extend(value.as_bytes());
    field
}

/// Returns the paths of all methods in the proto files, so that a new method is tested as well.
pub(crate) fn methods() -> Vec<String> {
    let mut methods = Vec::new();
    for (service, proto) in [
        ("Vic", include_str!("../../../proto/vic/v1/vic.proto")),
        ("Graph", include_str!("../../../proto/vic/v1/graph.proto")),
        ("Llm", include_str!("../../../proto/vic/v1/llm.proto")),
    ] {
        let names = proto.lines().filter_map(|line| line.trim().strip_prefix("rpc ")?.split('(').next());
        methods.extend(names.map(|it| format!("/vic.v1.{service}/{it}")));
    }
    assert!(methods.len() > 20, "{methods:?}");
    methods
}
