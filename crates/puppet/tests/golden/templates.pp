$port = 8080
file { '/nowhere/a': content => inline_epp('port <%= $port %>') }
file { '/nowhere/b': content => inline_template('x <%= 1 + 1 %>') }
#=> file[/nowhere/a] path=/nowhere/a state=exists content=port 8080 instead=true
#=> file[/nowhere/b] path=/nowhere/b state=exists content=x 2 instead=true
#=> file[/nowhere/a] ~> noop[completed_Class[Main]]
#=> file[/nowhere/b] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/a]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/b]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
