schedule { 'night': range => '2 - 4', period => daily }
file { '/nowhere/a': content => 'x', schedule => 'night' }
file { '/nowhere/b': content => 'x', audit => mode, tag => 't' }
#=> noop[Schedule[night]]
#=> pippet[File[/nowhere/a]] type=file title=/nowhere/a params={"content":"x","schedule":"night"} context=[{"type":"schedule","title":"night","parameters":{"range":"2 - 4","period":"daily"},"sensitive":[],"passive":true}] meta:poll=1800
#=> pippet[File[/nowhere/b]] type=file title=/nowhere/b params={"content":"x","audit":"mode","tag":"t"} meta:poll=1800
#=> noop[Schedule[night]] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> noop[Schedule[night]]
#=> noop[admissible_Class[Main]] ~> pippet[File[/nowhere/a]]
#=> noop[admissible_Class[Main]] ~> pippet[File[/nowhere/b]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> pippet[File[/nowhere/a]] ~> noop[completed_Class[Main]]
#=> pippet[File[/nowhere/b]] ~> noop[completed_Class[Main]]
#=> File[/nowhere/a] is left to Puppet: `schedule` has no counterpart
#=> File[/nowhere/b] is left to Puppet: `audit` has no counterpart
