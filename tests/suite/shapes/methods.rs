//! Shapes of methods: receivers, default bodies, trait implementations, metadata from `self`.

use std::sync::Arc;

#[derive(Default)]
struct Model {
    seqlen: usize,
    r#type: u8,
    v: Vec<u32>,
}

impl Model {
    #[zprof::trace]
    fn by_reference(&self) -> usize {
        self.seqlen
    }

    #[zprof::trace]
    fn by_mut(&mut self) -> &mut Vec<u32> {
        &mut self.v
    }

    #[zprof::trace(self.seqlen)]
    fn by_value(self) -> Vec<u32> {
        self.v
    }

    #[zprof::trace(holders = Arc::strong_count(&self))]
    fn by_arc(self: Arc<Self>) -> usize {
        self.seqlen
    }

    #[zprof::trace(seqlen = self.seqlen, self.r#type)]
    fn field(&self) -> usize {
        self.seqlen
    }

    #[zprof::trace("model.call", length = self.v.len(), level = verbose, filter = 31, root = self.v.is_empty())]
    fn call(&mut self, item: u32) -> usize {
        self.v.push(item);
        self.v.len()
    }

    #[zprof::trace]
    fn associated(seqlen: usize) -> Self {
        Self { seqlen, ..Self::default() }
    }
}

trait Layer {
    fn width(&self) -> usize;

    #[zprof::trace(width = self.width())]
    fn twice(&self) -> usize {
        self.width() * 2
    }
}

impl Layer for Model {
    #[zprof::trace(name = "layer.width", crate = ::zprof)]
    fn width(&self) -> usize {
        self.seqlen
    }
}

#[test]
fn methods_do_what_they_did() {
    let mut model = Model::associated(8);
    assert_eq!(model.by_reference(), 8);
    let shape: fn(&mut Model) -> &mut Vec<u32> = Model::by_mut;
    shape(&mut model).push(1);
    assert_eq!(model.call(2), 2);
    assert_eq!(model.field(), 8);
    assert_eq!(model.by_value(), [1, 2]);
    let shape: fn(Arc<Model>) -> usize = Model::by_arc;
    assert_eq!(shape(Arc::new(Model::associated(3))), 3);
    let layer: &dyn Layer = &Model::associated(4);
    assert_eq!((layer.width(), layer.twice()), (4, 8));
}
