['a', 'b', 'c'].each |Integer $i, String $name| {
  file { "/nowhere/${name}": content => "${i}" }
}
#=> file[/nowhere/a] path=/nowhere/a state=exists content=0
#=> file[/nowhere/b] path=/nowhere/b state=exists content=1
#=> file[/nowhere/c] path=/nowhere/c state=exists content=2
#=> file[/nowhere/a] ~> noop[completed_Class[Main]]
#=> file[/nowhere/b] ~> noop[completed_Class[Main]]
#=> file[/nowhere/c] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/a]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/b]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/c]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
