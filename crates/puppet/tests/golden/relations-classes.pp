class a { notify { 'a': } }
class b { notify { 'b': } }
include a
include b
Class['a'] ~> Class['b']
#=> msg[a] body=a priority=Notice
#=> msg[b] body=b priority=Notice
#=> msg[a] ~> noop[completed_Class[A]]
#=> msg[b] ~> noop[completed_Class[B]]
#=> noop[admissible_Class[A]] ~> msg[a]
#=> noop[admissible_Class[B]] ~> msg[b]
#=> noop[admissible_Class[Main]] -> noop[completed_Class[Main]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[A]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[B]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[A]] ~> noop[admissible_Class[B]]
#=> noop[completed_Class[A]] ~> noop[completed_Stage[main]]
#=> noop[completed_Class[B]] ~> noop[completed_Stage[main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
