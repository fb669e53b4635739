//! Values under small, reusable numbers.

/// A vector with holes. A number is reused only after its value was removed.
#[derive(Debug)]
pub(super) struct Slab<T> {
    values: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(super) fn new() -> Slab<T> {
        Slab { values: Vec::new(), free: Vec::new() }
    }

    pub(super) fn insert(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.values[index as usize] = Some(value);
                index
            }
            None => {
                // Four thousand million watches do not fit into any machine; the last number is then shared,
                // which costs wrong wake-ups and nothing else.
                let index = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
                self.values.push(Some(value));
                index
            }
        }
    }

    pub(super) fn remove(&mut self, index: u32) -> Option<T> {
        let value = self.values.get_mut(index as usize)?.take()?;
        self.free.push(index);
        Some(value)
    }

    pub(super) fn get(&self, index: u32) -> Option<&T> {
        self.values.get(index as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.values.get_mut(index as usize)?.as_mut()
    }

    pub(super) fn len(&self) -> usize {
        self.values.len() - self.free.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.values.iter().zip(0u32..).filter_map(|(value, index)| Some((index, value.as_ref()?)))
    }

    pub(super) fn keys(&self) -> Vec<u32> {
        self.iter().map(|(index, _)| index).collect()
    }
}

/// A small sorted set of numbers; most hold one.
#[derive(Debug, Clone, Default)]
pub(super) struct Numbers(smallvec::SmallVec<[u32; 4]>);

impl Numbers {
    /// Says whether it was new.
    pub(super) fn insert(&mut self, number: u32) -> bool {
        match self.0.binary_search(&number) {
            Ok(_) => false,
            Err(at) => {
                self.0.insert(at, number);
                true
            }
        }
    }

    /// Says whether it was there.
    pub(super) fn remove(&mut self, number: u32) -> bool {
        match self.0.binary_search(&number) {
            Ok(at) => {
                self.0.remove(at);
                true
            }
            Err(_) => false,
        }
    }

    pub(super) fn contains(&self, number: u32) -> bool {
        self.0.binary_search(&number).is_ok()
    }

    pub(super) fn as_slice(&self) -> &[u32] {
        &self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
