file { '/nowhere/a': content => Deferred('upcase', ['text']) }
#=> file[/nowhere/a] path=/nowhere/a state=exists content=TEXT instead=true
#=> file[/nowhere/a] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/a]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
