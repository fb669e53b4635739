notify { 'hi': }
#=> msg[hi] body=hi priority=Notice
#=> msg[hi] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> msg[hi]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
