ID {
  Type = gvk("demo.v2.Artist")
  Name = "korn"
}

Data {
  Name  = 12
  Gnre  = "GENRE_METAL"
  Genre = "GENRE_METL"
  GroupMembers = {
    drums = true
  }
}

Metadata = {
  label = var.label
}
