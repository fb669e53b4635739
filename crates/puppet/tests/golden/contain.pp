class inner { notify { 'in': } }
class outer { contain inner
  notify { 'out': } }
include outer
notify { 'last': require => Class['outer'] }
#=> msg[in] body=in priority=Notice
#=> msg[out] body=out priority=Notice
#=> msg[last] body=last priority=Notice
#=> msg[in] ~> noop[completed_Class[Inner]]
#=> msg[last] ~> noop[completed_Class[Main]]
#=> msg[out] ~> noop[completed_Class[Outer]]
#=> noop[admissible_Class[Inner]] ~> msg[in]
#=> noop[admissible_Class[Main]] ~> msg[last]
#=> noop[admissible_Class[Outer]] ~> msg[out]
#=> noop[admissible_Class[Outer]] ~> noop[admissible_Class[Inner]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Inner]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Outer]]
#=> noop[completed_Class[Inner]] ~> noop[completed_Class[Outer]]
#=> noop[completed_Class[Inner]] ~> noop[completed_Stage[main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> noop[completed_Class[Outer]] -> msg[last]
#=> noop[completed_Class[Outer]] ~> noop[completed_Stage[main]]
