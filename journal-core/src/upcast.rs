//! Old payloads become current values when they are read: in recovery and in every query.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde::de::DeserializeOwned;

use crate::{CodecError, CodecId, codec::decode_compiled_in};

type Upcast<E> = Arc<dyn Fn(CodecId, &[u8]) -> Result<E, CodecError> + Send + Sync>;

/// Upcasters of one event type, keyed by manifest and schema version; typed and one to one.
///
/// ```
/// # use journal_core::Upcasters;
/// # use serde::Deserialize;
/// #[derive(Deserialize)]
/// struct DepositedV1 { euros: u64 }
/// struct Deposited { cents: u64 }
///
/// let upcasters = Upcasters::<Deposited>::new()
///     .register("deposited", 1, |old: DepositedV1| Deposited { cents: old.euros * 100 });
/// ```
pub struct Upcasters<E> {
    by_version: BTreeMap<(&'static str, u32), Upcast<E>>,
}

impl<E: 'static> Upcasters<E> {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            by_version: BTreeMap::new(),
        }
    }

    /// Payloads of `manifest` in `version` are decoded as an `Old` and turned into an `E`.
    #[must_use]
    pub fn register<Old: DeserializeOwned>(
        mut self,
        manifest: &'static str,
        version: u32,
        upcast: impl Fn(Old) -> E + Send + Sync + 'static,
    ) -> Self {
        let upcast: Upcast<E> =
            Arc::new(move |codec, payload| decode_compiled_in::<Old>(codec, payload).map(&upcast));
        self.by_version.insert((manifest, version), upcast);
        self
    }

    pub(crate) fn find(&self, manifest: &str, version: u32) -> Option<&Upcast<E>> {
        // The common case is a type without old versions.
        if self.by_version.is_empty() {
            return None;
        }
        self.by_version
            .iter()
            .find_map(|((known, at), upcast)| (*known == manifest && *at == version).then_some(upcast))
    }
}

impl<E: 'static> Default for Upcasters<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E> fmt::Debug for Upcasters<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_version.keys()).finish()
    }
}
