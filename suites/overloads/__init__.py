"""Programs that call one overload of an ATen operator, with arguments made from its schema."""
