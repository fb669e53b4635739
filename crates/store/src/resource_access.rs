//! The shared state as kinds of resources use it: [`SharedStore`] for [`SharedState`].

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mgmt_resource::{Host, Offer, Scope, SharedAnswer, SharedChanges, SharedStore, SharedStoreError};
use mgmt_value::Str;

use crate::{Changes, SharedState, StoreError};

impl SharedState {
    /// The shared state of a resource's host, if it is one.
    pub fn of(host: &Host) -> Option<Arc<SharedState>> {
        Arc::clone(&host.shared).into_any().downcast().ok()
    }
}

impl SharedStore for SharedState {
    fn shared<'a>(&'a self, key: &'a Str) -> SharedAnswer<'a, Option<Str>> {
        answer(SharedState::shared(self, key))
    }

    fn by_host<'a>(&'a self, key: &'a Str) -> SharedAnswer<'a, BTreeMap<Str, Str>> {
        answer(SharedState::by_host(self, key))
    }

    fn set_shared<'a>(&'a self, key: &'a Str, value: Option<&'a Str>) -> SharedAnswer<'a, bool> {
        answer(SharedState::set_shared(self, key, value))
    }

    fn set_of_host<'a>(
        &'a self,
        key: &'a Str,
        host: &'a Str,
        value: Option<&'a Str>,
    ) -> SharedAnswer<'a, bool> {
        answer(SharedState::set_of_host(self, key, host, value))
    }

    fn replace_shared<'a>(
        &'a self,
        key: &'a Str,
        expected: Option<&'a Str>,
        value: &'a Str,
    ) -> SharedAnswer<'a, bool> {
        answer(SharedState::replace_shared(self, key, expected, value))
    }

    fn watch(&self, key: &Str, scope: Scope) -> Box<dyn SharedChanges> {
        Box::new(SharedState::watch(self, key, scope))
    }

    fn volunteer<'a>(&'a self, name: &'a Str, offer: &'a Offer, apply: bool) -> SharedAnswer<'a, bool> {
        answer(SharedState::volunteer(self, name, offer, apply))
    }

    fn withdraw<'a>(&'a self, name: &'a Str, apply: bool) -> SharedAnswer<'a, bool> {
        answer(SharedState::withdraw(self, name, apply))
    }

    fn watch_own(&self) -> Box<dyn SharedChanges> {
        Box::new(SharedState::watch_own(self))
    }

    fn is_chosen(&self, name: &Str) -> Option<Option<Duration>> {
        SharedState::is_chosen(self, name)
    }

    fn watch_schedule(&self, name: &Str) -> Box<dyn SharedChanges> {
        Box::new(SharedState::watch_schedule(self, name))
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

impl SharedChanges for Changes {
    fn next(&mut self) -> SharedAnswer<'_, ()> {
        answer(Changes::next(self))
    }
}

fn answer<'a, T>(call: impl Future<Output = Result<T, StoreError>> + Send + 'a) -> SharedAnswer<'a, T> {
    Box::pin(async move { call.await.map_err(SharedStoreError::from) })
}
