ID {
  Type = gvk("foo.bar.Baz")
  Name = "x"
}
