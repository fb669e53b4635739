stage { 'first': before => Stage['main'] }
class early { notify { 'early': } }
class { 'early': stage => 'first' }
notify { 'main': }
#=> msg[early] body=early priority=Notice
#=> msg[main] body=main priority=Notice
#=> msg[early] ~> noop[completed_Class[Early]]
#=> msg[main] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Early]] ~> msg[early]
#=> noop[admissible_Class[Main]] ~> msg[main]
#=> noop[admissible_Stage[first]] ~> noop[admissible_Class[Early]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Early]] ~> noop[completed_Stage[first]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> noop[completed_Stage[first]] -> noop[admissible_Stage[main]]
