# What a host of a site is made of. The modules are in the style of common public ones.
stage { 'before': before => Stage['main'] }
class { 'repository': stage => 'before' }
include accounts, motd, ssh, sudo, sysctl, timeservice, web
