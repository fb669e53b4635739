class inner { notify { 'inner': } }
class outer {
  anchor { 'begin': } -> class { 'inner': } -> anchor { 'end': }
}
include outer
notify { 'after': require => Class['outer'] }
#=> noop[Anchor[begin]] forward=true
#=> msg[inner] body=inner priority=Notice
#=> noop[Anchor[end]] forward=true
#=> msg[after] body=after priority=Notice
#=> msg[after] ~> noop[completed_Class[Main]]
#=> msg[inner] ~> noop[completed_Class[Inner]]
#=> noop[Anchor[begin]] -> noop[admissible_Class[Inner]]
#=> noop[Anchor[begin]] ~> noop[completed_Class[Outer]]
#=> noop[Anchor[end]] ~> noop[completed_Class[Outer]]
#=> noop[admissible_Class[Inner]] ~> msg[inner]
#=> noop[admissible_Class[Main]] ~> msg[after]
#=> noop[admissible_Class[Outer]] ~> noop[Anchor[begin]]
#=> noop[admissible_Class[Outer]] ~> noop[Anchor[end]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Inner]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Outer]]
#=> noop[completed_Class[Inner]] -> noop[Anchor[end]]
#=> noop[completed_Class[Inner]] ~> noop[completed_Stage[main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> noop[completed_Class[Outer]] -> msg[after]
#=> noop[completed_Class[Outer]] ~> noop[completed_Stage[main]]
