class base { file { '/nowhere/a': content => 'base' } }
class special inherits base { File['/nowhere/a'] { content => 'special' } }
include special
#=> file[/nowhere/a] path=/nowhere/a state=exists content=special instead=true
#=> file[/nowhere/a] ~> noop[completed_Class[Base]]
#=> noop[admissible_Class[Base]] ~> file[/nowhere/a]
#=> noop[admissible_Class[Main]] -> noop[completed_Class[Main]]
#=> noop[admissible_Class[Special]] -> noop[completed_Class[Special]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Base]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Special]]
#=> noop[completed_Class[Base]] ~> noop[completed_Stage[main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> noop[completed_Class[Special]] ~> noop[completed_Stage[main]]
