use vic::model::*;
use vic::store::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let (dir, corpus, n) = (&a[1], &a[2], a[3].parse::<usize>().unwrap());
    let mut sentences = vec![];
    for l in std::fs::read_to_string(corpus).unwrap().lines() {
        let v: serde_json::Value = serde_json::from_str(l).unwrap();
        for s in v["text"].as_str().unwrap().split(". ") {
            if s.len() > 30 {
                sentences.push(s.to_string());
            }
        }
    }
    println!("{} sentences", sentences.len());
    let mut seed = 5u64;
    let mut rnd = move |n: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((seed >> 33) as usize) % n
    };
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let t = std::time::Instant::now();
        let store = LanceStore::open(std::path::Path::new(dir), "be0c4be0c4be0c4b", 384).await.unwrap();
        let mut row = 0usize;
        while row < n {
            let mut files = vec![];
            for _ in 0..1000 {
                let chunks = (0..2)
                    .map(|o| {
                        row += 1;
                        let text =
                            (0..5).map(|_| sentences[rnd(sentences.len())].clone()).collect::<Vec<_>>().join(". ");
                        let mut v: Vec<f32> = (0..384).map(|_| rnd(2000) as f32 / 1000.0 - 1.0).collect();
                        let n = v.iter().map(|i| i * i).sum::<f32>().sqrt();
                        v.iter_mut().for_each(|i| *i /= n);
                        Embedded {
                            chunk: Chunk {
                                id: ChunkId(format!("{row:032x}")),
                                ordinal: o,
                                text,
                                body_start: 0,
                                anchor: Anchor::default(),
                                heading_path: vec![],
                                tokens: 100,
                                tier: Tier::L1,
                            },
                            vector: v,
                        }
                    })
                    .collect();
                files.push(FileChunks { file_id: row as i64 / 2, chunks });
            }
            store.replace(files).await.unwrap();
        }
        println!("filled {:?}", t.elapsed());
        store.upkeep().await.unwrap();
        println!("upkeep {:?} {:?}", t.elapsed(), store.stats().await.unwrap());
    });
}
