
#=> noop[admissible_Class[Main]] -> noop[completed_Class[Main]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
