['a', 'b', 'c'].each |Integer $i, String $name| {
  file { "/nowhere/${name}": content => "${i}" }
}
#=> file[/nowhere/a] path=/nowhere/a state=exists content=0 instead=true
#=> file[/nowhere/b] path=/nowhere/b state=exists content=1 instead=true
#=> file[/nowhere/c] path=/nowhere/c state=exists content=2 instead=true
#=> file[/nowhere/a] ~> noop[completed_Class[Main]]
#=> file[/nowhere/b] ~> noop[completed_Class[Main]]
#=> file[/nowhere/c] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/a]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/b]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/c]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
