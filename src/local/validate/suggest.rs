//! "Did you mean …?"

/// The candidate that `word` was probably meant to be, if one is near enough.
pub(crate) fn closest<'c>(word: &str, candidates: &[&'c str]) -> Option<&'c str> {
    // No name of ours is longer; a longer word is not a typing error, and comparing it would cost.
    if word.chars().count() > 64 {
        return None;
    }
    let distance = |candidate: &str| strsim::osa_distance(&word.to_lowercase(), &candidate.to_lowercase());
    let (nearest, candidate) = candidates.iter().map(|candidate| (distance(candidate), *candidate)).min()?;
    (nearest <= 1 + candidate.len() / 4).then_some(candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_is_recognised_and_another_word_is_not() {
        let known = ["endpoint", "protocol", "priority", "dsp"];
        assert_eq!(closest("endpiont", &known), Some("endpoint"));
        assert_eq!(closest("Protocol", &known), Some("protocol"));
        assert_eq!(closest("endPointURL", &known), Some("endpoint"));
        assert_eq!(closest("colour", &known), None);
        assert_eq!(closest(&"x".repeat(10_000), &known), None);
    }
}
