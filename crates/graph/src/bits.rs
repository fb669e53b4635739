//! A fixed set of small integers.

/// One bit per integer below the size given at construction.
#[derive(Clone, Debug)]
pub(crate) struct BitSet {
    words: Vec<u64>,
}

impl BitSet {
    pub(crate) fn new(size: usize) -> Self {
        Self { words: vec![0; size.div_ceil(64)] }
    }

    /// Adds `bit` and says whether it was new.
    pub(crate) fn insert(&mut self, bit: usize) -> bool {
        let word = &mut self.words[bit / 64];
        let mask = 1 << (bit % 64);
        let new = *word & mask == 0;
        *word |= mask;
        new
    }

    /// The members in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        ones(&self.words)
    }
}

/// Whether `bit` is set in `words`.
pub(crate) fn has(words: &[u64], bit: usize) -> bool {
    words[bit / 64] >> (bit % 64) & 1 == 1
}

/// The numbers of the set bits in ascending order.
pub(crate) fn ones(words: &[u64]) -> impl Iterator<Item = usize> {
    words.iter().enumerate().flat_map(|(index, &word)| {
        let mut rest = word;
        std::iter::from_fn(move || {
            let bit = (rest != 0).then(|| index * 64 + rest.trailing_zeros() as usize)?;
            rest &= rest - 1;
            Some(bit)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_back_in_ascending_order() {
        let mut set = BitSet::new(200);
        for bit in [199, 0, 64, 63, 65] {
            assert!(set.insert(bit));
        }
        assert!(!set.insert(64));
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 63, 64, 65, 199]);
        assert!(has(&set.words, 199) && !has(&set.words, 198));
    }
}
