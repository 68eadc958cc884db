//! Clusters documents by shared words: TF-IDF, cosine similarity, average linkage. Equal input gives equal clusters.

use std::collections::BTreeMap;

use kodama::{Method, linkage};

use crate::corpus::api::answer::mean;
use crate::corpus::views::documents::CorpusDocument;

/// Maximum number of documents to cluster: two arrays of pairwise distances take 100 MB each.
pub(crate) const MAX_DOCUMENTS: usize = 5_000;

/// Number of terms in the label of a cluster.
const LABEL_TERMS: usize = 4;

/// The weight of each term in a document, normalized to a vector of length 1.
pub(crate) type TermVector = BTreeMap<String, f64>;

/// A group of documents with shared words.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    /// Indexes of the documents in the cluster.
    pub(crate) members: Vec<usize>,
    /// Terms that distinguish the cluster from the other clusters.
    pub(crate) label: Vec<String>,
    /// Mean similarity of the documents in the cluster, 0 to 1.
    pub(crate) cohesion: f64,
}

/// Computes the TF-IDF vector of each document.
pub(crate) fn tf_idf(papers: &[CorpusDocument]) -> Vec<TermVector> {
    let mut frequency: BTreeMap<&str, f64> = BTreeMap::new();
    for paper in papers {
        for term in paper.parsed.terms.keys() {
            *frequency.entry(term).or_default() += 1.0;
        }
    }
    let all = papers.len() as f64;
    let weigh = |paper: &CorpusDocument| {
        let weigh = |(term, count): (&String, &u32)| {
            let rare = (1.0 + all / frequency[term.as_str()]).ln();
            (term.clone(), (1.0 + f64::from(*count).ln()) * rare)
        };
        let mut weights: TermVector = paper.parsed.terms.iter().map(weigh).collect();
        let length = weights.values().map(|it| it * it).sum::<f64>().sqrt();
        weights.values_mut().for_each(|it| *it /= length.max(f64::MIN_POSITIVE));
        weights
    };
    papers.iter().map(weigh).collect()
}

/// Computes the cosine similarity of two vectors.
pub(crate) fn cosine(a: &TermVector, b: &TermVector) -> f64 {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    short.iter().filter_map(|(term, weight)| Some(weight * long.get(term)?)).sum()
}

/// Clusters documents. Chooses the number of clusters, 2 to `most`, with the best silhouette.
pub(crate) fn cluster_documents(papers: &[CorpusDocument], most: usize) -> Vec<Cluster> {
    let weights = tf_idf(papers);
    let count = weights.len();
    if count < 2 {
        return build_clusters(vec![(0..count).collect()], &weights);
    }
    let mut distances = Vec::with_capacity(count * (count - 1) / 2);
    for one in 0..count {
        distances.extend((one + 1..count).map(|other| 1.0 - cosine(&weights[one], &weights[other])));
    }
    let at = |one: usize, other: usize| {
        let (low, high) = (one.min(other), one.max(other));
        if low == high { 0.0 } else { distances[low * count - low * (low + 1) / 2 + high - low - 1] }
    };
    let mut condensed = distances.clone();
    let steps: Vec<(usize, usize)> =
        linkage(&mut condensed, count, Method::Average).steps().iter().map(|it| (it.cluster1, it.cluster2)).collect();
    let choices = (2..=most.min(count - 1).max(1)).map(|groups| cut_dendrogram(&steps, count, groups));
    let scored = choices.map(|groups| (silhouette(&groups, count, &at), groups));
    let best = scored.reduce(|best, next| if next.0 > best.0 + 1e-9 { next } else { best });
    let groups = best.map_or_else(|| cut_dendrogram(&steps, count, most.clamp(1, count)), |it| it.1);
    build_clusters(groups, &weights)
}

/// Applies merge steps in order, starting with one cluster per document, until only `groups` clusters are left.
fn cut_dendrogram(steps: &[(usize, usize)], count: usize, groups: usize) -> Vec<Vec<usize>> {
    let mut members: BTreeMap<usize, Vec<usize>> = (0..count).map(|it| (it, vec![it])).collect();
    for (number, (one, other)) in steps.iter().take(count - groups).enumerate() {
        let mut joined = members.remove(one).unwrap_or_default();
        joined.extend(members.remove(other).unwrap_or_default());
        joined.sort_unstable();
        members.insert(count + number, joined);
    }
    members.into_values().collect()
}

/// Computes the mean silhouette: how much nearer each document is to its own cluster than to the next one, -1 to 1.
fn silhouette(groups: &[Vec<usize>], count: usize, distance: &dyn Fn(usize, usize) -> f64) -> f64 {
    let mut scores = Vec::with_capacity(count);
    for (own, group) in groups.iter().enumerate() {
        for one in group {
            let to = |other: &[usize], less: usize| {
                let sum: f64 = other.iter().map(|it| distance(*one, *it)).sum();
                sum / (other.len() - less).max(1) as f64
            };
            let inside = to(group, 1);
            let others = groups.iter().enumerate().filter(|it| it.0 != own).map(|it| to(it.1, 0));
            let next = others.fold(f64::INFINITY, f64::min);
            scores.push(if group.len() == 1 { 0.0 } else { (next - inside) / next.max(inside).max(f64::MIN_POSITIVE) });
        }
    }
    mean(&scores)
}

fn build_clusters(groups: Vec<Vec<usize>>, weights: &[TermVector]) -> Vec<Cluster> {
    let mut made: Vec<Cluster> = groups.into_iter().map(|members| build_cluster(members, weights)).collect();
    made.sort_by(|a, b| b.members.len().cmp(&a.members.len()).then(a.members.cmp(&b.members)));
    made
}

fn build_cluster(members: Vec<usize>, weights: &[TermVector]) -> Cluster {
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for (at, own) in weights.iter().enumerate() {
        let inside = members.contains(&at);
        for (term, weight) in own {
            let share = if inside { members.len() } else { weights.len() - members.len() };
            *sums.entry(term).or_default() += weight / share.max(1) as f64 * if inside { 1.0 } else { -1.0 };
        }
    }
    let mut telling: Vec<(&str, f64)> = sums.into_iter().collect();
    telling.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    let (mut sum, mut pairs) = (0.0, 0_usize);
    for (at, one) in members.iter().enumerate() {
        for other in &members[at + 1..] {
            sum += cosine(&weights[*one], &weights[*other]);
            pairs += 1;
        }
    }
    let cohesion = if pairs == 0 { 1.0 } else { sum / pairs as f64 };
    Cluster { members, label: telling.into_iter().take(LABEL_TERMS).map(|it| it.0.to_string()).collect(), cohesion }
}
