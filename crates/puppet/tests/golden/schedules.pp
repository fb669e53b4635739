schedule { 'night': range => '2 - 4', period => daily }
file { '/nowhere/a': content => 'x', schedule => 'night' }
file { '/nowhere/b': content => 'x', audit => mode, tag => 't' }
#=> noop[Schedule[night]]
#=> file[/nowhere/a] path=/nowhere/a state=exists content=x instead=true meta:window=2-4 daily
#=> pippet[File[/nowhere/b]] type=file title=/nowhere/b params={"content":"x","audit":"mode","tag":"t"} paths=["/nowhere/b"] watchfiles=["/nowhere/b"] interval=1800
#=> file[/nowhere/a] ~> noop[completed_Class[Main]]
#=> noop[Schedule[night]] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/a]
#=> noop[admissible_Class[Main]] ~> noop[Schedule[night]]
#=> noop[admissible_Class[Main]] ~> pippet[File[/nowhere/b]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> pippet[File[/nowhere/b]] ~> noop[completed_Class[Main]]
#=> File[/nowhere/b] is left to Puppet: `audit` has no counterpart
