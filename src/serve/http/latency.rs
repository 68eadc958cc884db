use super::*;
use crate::serve::{fake::FakeService, wire};
use std::time::Instant;
use tokio::net::TcpListener;

async fn measure(name: &str, address: std::net::SocketAddr) {
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    let mut stub = wire::vic_client::VicClient::new(channel);
    let mut all = Vec::new();
    for round in 0..6000 {
        let begun = Instant::now();
        let request = wire::AskRequest { query: "x".into(), ..Default::default() };
        stub.ask(request).await.unwrap();
        if round > 500 { all.push(begun.elapsed().as_secs_f64() * 1e6) }
    }
    all.sort_by(f64::total_cmp);
    println!("{name}: p50 {:.0} us p90 {:.0} p99 {:.0} us", all[all.len() / 2], all[all.len() * 9 / 10], all[all.len() * 99 / 100]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore]
async fn latency() {
    let service = Arc::new(FakeService::new());
    let shutdown = service.shutdown.clone();
    let routes = crate::serve::routes(service.clone(), shutdown.clone()).await.unwrap();
    let config = Config::from_lookup(&|name| (name == "VIC_DATA_DIR").then(|| "/d".into())).unwrap();
    let bridge = Arc::new(Bridge::new(service.clone(), &config, shutdown.clone()));
    let one = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let two = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (a, b) = (one.local_addr().unwrap(), two.local_addr().unwrap());
    tokio::spawn(serve(one, router(bridge.clone(), routes.clone()), bridge));
    let incoming = tokio_stream::wrappers::TcpListenerStream::new(two);
    let incoming = futures::StreamExt::map(incoming, |it| it.inspect(|it| it.set_nodelay(true).unwrap()));
    tokio::spawn(crate::serve::server().add_routes(routes).serve_with_incoming(incoming));
    for _ in 0..3 {
        measure("bridge", a).await;
        measure("tonic ", b).await;
    }
}
