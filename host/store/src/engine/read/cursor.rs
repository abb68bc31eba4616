//! Cursors: exact scans, page by page.

use std::sync::Weak;

use async_trait::async_trait;
use mortise_resource::EncodedResource;
use tokio::task::JoinHandle;

use crate::{
    CopiedPart, CopyCursor, Cursor, StoreError,
    engine::read::{
        copy::Copied,
        form::{Form, Parsed},
        scan::{FIRST_STEP_LIMIT, LONG_STEP_LIMIT, ScanPosition, Scanner, interrupted},
    },
};

/// Result of a step of a cursor.
pub(super) struct Page<T> {
    pub(super) items: Vec<T>,
    /// State of the cursor after the page.
    pub(super) next: State<T>,
}

/// A cursor over a [`SledBackend`](crate::SledBackend).
pub(crate) struct SledCursor<F: Form> {
    /// Scanner of the store; weak, so as not to keep the database open.
    scanner: Weak<Scanner>,
    form: F,
    state: State<F::Item>,
    /// Number of steps made.
    steps: usize,
}

/// State of a cursor.
pub(super) enum State<T> {
    /// Position before the first step, which runs on the caller's task.
    First(Box<ScanPosition>),
    Waiting(Box<ScanPosition>),
    /// Running step; kept here so that a cancelled call loses no page.
    Stepping(JoinHandle<Result<Page<T>, StoreError>>),
    /// The next resource cannot be read.
    At(StoreError),
    Ended,
    Failed,
}

impl<F: Form> SledCursor<F> {
    pub(super) fn new(scanner: Weak<Scanner>, form: F, position: Box<ScanPosition>) -> Self {
        Self { scanner, form, state: State::First(position), steps: 0 }
    }

    /// Returns the items of the next page that has any; `None` after the last.
    async fn next_page(&mut self) -> Result<Option<Vec<F::Item>>, StoreError> {
        loop {
            match self.next_step().await? {
                Some(items) if items.is_empty() => {}
                page => return Ok(page),
            }
        }
    }

    /// Returns the items of the next step, perhaps none; `None` after the last.
    async fn next_step(&mut self) -> Result<Option<Vec<F::Item>>, StoreError> {
        loop {
            let items = match std::mem::replace(&mut self.state, State::Failed) {
                State::First(position) => {
                    let scanner = self.scanner.upgrade().ok_or(StoreError::Closed)?;
                    let page = scanner.page(position, FIRST_STEP_LIMIT, &self.form);
                    self.turn(page)?
                }
                State::Waiting(position) => {
                    // Put back, so that a call cancelled while it waits for a permit loses nothing.
                    self.state = State::Waiting(position);
                    let scanner = self.scanner.upgrade().ok_or(StoreError::Closed)?;
                    let permit = scanner.permit(self.steps == 1).await?;
                    if let State::Waiting(position) = std::mem::replace(&mut self.state, State::Failed) {
                        let form = self.form.clone();
                        self.state = State::Stepping(tokio::task::spawn_blocking(move || {
                            let _permit = permit;
                            scanner.page(position, LONG_STEP_LIMIT, &form)
                        }));
                    }
                    continue;
                }
                State::Stepping(step) => {
                    self.state = State::Stepping(step);
                    let State::Stepping(step) = &mut self.state else { return Err(StoreError::Closed) };
                    let page = step.await.unwrap_or_else(|error| Err(interrupted(error)));
                    self.turn(page)?
                }
                State::Ended => {
                    self.state = State::Ended;
                    return Ok(None);
                }
                State::At(fault) => return Err(fault),
                State::Failed => return Err(StoreError::Closed),
            };
            return Ok(Some(items));
        }
    }

    /// Takes the items of a page, and the state after it.
    fn turn(&mut self, page: Result<Page<F::Item>, StoreError>) -> Result<Vec<F::Item>, StoreError> {
        self.state = State::Failed;
        let Page { items, next } = page?;
        self.steps += 1;
        self.state = next;
        Ok(items)
    }

    fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }
}

#[async_trait]
impl Cursor for SledCursor<Parsed> {
    async fn next(&mut self) -> Result<Option<Vec<EncodedResource>>, StoreError> {
        self.next_page().await
    }

    fn is_at_end(&self) -> bool {
        self.has_ended()
    }
}

#[async_trait]
impl CopyCursor for SledCursor<Copied> {
    async fn next(&mut self) -> Result<Option<Vec<CopiedPart>>, StoreError> {
        self.next_step().await
    }

    fn is_at_end(&self) -> bool {
        self.has_ended()
    }
}
