//! Work that must not run on the arbiter's thread.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    runtime::Handle,
    task::{JoinError, JoinHandle},
};

/// A task of another runtime as a future: dropped, it takes the task with it.
pub(crate) struct OffThread<T>(JoinHandle<T>);

impl<T: Send + 'static> OffThread<T> {
    pub(crate) fn spawn(runtime: &Handle, work: impl Future<Output = T> + Send + 'static) -> Self {
        Self(runtime.spawn(work))
    }
}

impl<T> Future for OffThread<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl<T> Drop for OffThread<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
