# Runs inside the Ruby of an installed Puppet: compiles manifests and applies single resources, on request.
#
# One JSON object per line in each direction. Requests come from what was standard input, replies go to what was
# standard output; both are moved away first, so that nothing that Puppet, a module or a provider prints can get in
# between. Every request has an `id`, and its reply carries it: `{"id":…, "ok":…}` or `{"id":…, "error":…}`.
#
# No request ends the process. The end of the requests does, at once.

module MgmtPuppet
  REQUESTS = $stdin.dup
  REPLIES = $stdout.dup
  $stdin.reopen('/dev/null')
  $stdout.reopen($stderr)
  REQUESTS.set_encoding('UTF-8')
  REPLIES.set_encoding('UTF-8')
  REPLIES.sync = true
  ENV.delete_if { |name, _| name.start_with?('RUBY_GC_') }
end

require 'etc'
require 'find'
require 'json'
require 'set'

begin
  require 'puppet'
  require 'puppet/application_support'
  require 'puppet/pops/evaluator/deferred_resolver'
rescue LoadError => error
  MgmtPuppet::REPLIES.puts(JSON.generate('missing' => error.message))
  exit!(1)
end

module MgmtPuppet
  PROTOCOL = 1

  # Where Facter looks for what people say about a host.
  EXTERNAL_FACTS = %w[/etc/facter/facts.d /etc/puppetlabs/facter/facts.d /opt/puppetlabs/facter/facts.d].freeze

  # What may be told of one request.
  MOST_MESSAGES = 1000

  # Types whose automatic relations the other side knows by itself.
  KNOWN = %w[
    stage class node component whit notify file exec user group package service schedule filebucket resources tidy cron host
    mailalias mount sshkey ssh_authorized_key augeas selboolean anchor
  ].to_set

  # Takes what Puppet says while a request is served.
  class Messages
    attr_reader :list

    def initialize
      @list = []
    end

    def clear
      @list = []
    end

    def <<(message)
      @list << message if @list.length < MOST_MESSAGES
    end
  end

  MESSAGES = Messages.new

  # What is no source of anybody's configuration: the kernel's files, and Puppet itself.
  FOREIGN = ['/proc/', '/sys/', '/dev/', "#{File.dirname(Puppet.method(:version).source_location.first)}/"].freeze
  SOURCES = %w[.pp .yaml .yml .json .conf .eyaml .hocon .erb .epp].freeze

  # Notes which files a compile looks at, and what each of them was before it was read.
  module Files
    @stamps = {}
    @absent = Set.new
    @directories = Set.new
    class << self
      attr_reader :absent, :directories

      def clear
        @began = nanoseconds(Time.now)
        @stamps = {}
        @absent = Set.new
        @directories = Set.new
      end

      def read
        @stamps.keys
      end

      # What it takes to find out whether everything is still the same.
      def stamps
        { 'began' => @began || 0, 'stamps' => @stamps }
      end

      def seen(path)
        text = path.to_s
        @stamps[text] = stamp(text) unless @stamps.key?(text) || text.start_with?(*FOREIGN)
      end

      # Notes files of which it is known what they were.
      def seen_as(stamps)
        stamps.each { |path, stamp| @stamps[path] = stamp unless @stamps.key?(path) }
      end

      def stamp(path)
        found = File.stat(path)
        [found.dev, found.ino, found.size, nanoseconds(found.mtime), nanoseconds(found.ctime)]
      rescue SystemCallError
        nil
      end

      def nanoseconds(time)
        (time.to_i * 1_000_000_000) + time.nsec
      end

      # Whatever else Puppet tries and misses does not make a catalogue different when it appears.
      def missed(path)
        text = path.to_s
        @absent << text if text.start_with?('/') && text.end_with?(*SOURCES) && !text.start_with?(*FOREIGN)
      end
    end
  end

  # What stands before Puppet's own functions on files.
  module Recorder
    %i[read read_preserve_line_endings binread each_line open].each do |name|
      define_method(name) do |path, *arguments, **options, &block|
        Files.seen(path)
        options.empty? ? super(path, *arguments, &block) : super(path, *arguments, **options, &block)
      end
    end

    %i[exist? file? directory?].each do |name|
      define_method(name) do |path|
        found = super(path)
        Files.missed(path) unless found
        found
      end
    end
  end

  # Data files are looked for in another way.
  module PathRecorder
    def exist?
      found = super
      Files.missed(self) unless found
      found
    end
  end

  # Puppet keeps a state file that it reads and writes for each transaction; ours stays in memory. Turning it off in any
  # other way would also turn off `noop`.
  # Schedules and audits go by what is in it, so it is kept for those.
  module NoStateFile
    class << self
      attr_accessor :kept
    end

    def load
      return unless NoStateFile.kept && !@loaded

      @loaded = true
      super
    end

    def store
      super if NoStateFile.kept
    end
  end

  # Puppet names each file that it loads to Ruby by hand, and Ruby then looks at all files that it has ever loaded anew, which takes ten
  # times as long as the loading. Whoever loads a file in the ordinary way need not name it.
  module QuickLoading
    def load_file(name, env)
      file = get_file(name.to_s, env)
      return false unless file

      # What has changed since is for Puppet to load once more.
      return super if loaded?(name.to_s)

      path = File.expand_path(file)
      begin
        Code.loading(path)
        loaded[cleanpath(name).chomp('.rb')] = [path, File.mtime(path)]
        # One that somebody else has loaded is loaded nevertheless, as Puppet does.
        Kernel.require(path) || Kernel.load(path)
        true
      rescue SystemExit, NoMemoryError
        raise
      rescue Exception => error # rubocop:disable Lint/RescueException
        message = "Could not autoload #{name}: #{error}"
        Puppet.log_exception(error, message)
        raise Puppet::Error, message, error.backtrace
      end
    end

    # Only where it is known what it stands for.
    def self.use
      loader = Puppet::Util::Autoload
      known = %i[get_file loaded cleanpath loaded?].all? { |name| loader.respond_to?(name) }
      loader.singleton_class.prepend(self) if known && loader.method(:load_file).arity == 2
    end
  end

  # Notes what a compile looks up in Puppet's data, as far as it is plain.
  module Lookups
    @found = {}
    class << self
      attr_accessor :found

      def plain?(value)
        case value
        when String, Integer then true
        when Array then value.all? { |one| one.is_a?(String) }
        when Hash then value.all? { |name, one| name.is_a?(String) && (one.is_a?(String) || one.is_a?(Integer)) }
        else false
        end
      end
    end

    def search_and_merge(name, *others)
      value = super
      Lookups.found[name.to_s] = value if Lookups.plain?(value)
      value
    end
  end

  # Facts take long to gather, so they are gathered once, and again when asked for. Each compile freezes what it gets.
  module KeptFacts
    attr_writer :kept

    def find(name, **options)
      @kept ||= super&.values
      @kept && Puppet::Node::Facts.new(name, @kept.dup)
    end
  end

  # The Ruby code that this process has loaded from modules, and what each file was then.
  module Code
    @stamps = {}

    # What is written so shortly before something looks at it may have the time of the write before.
    TICK = 100_000_000

    # The stamp of a file of which nobody can tell whether it was loaded as it is now.
    UNCERTAIN = [0, 0, 0, 0, 0].freeze

    class << self
      # A request begins, which may load something.
      def begin
        @began = Files.nanoseconds(Time.now)
      end

      # Notes a file that is about to be loaded.
      def loading(path)
        (@early ||= {})[path] ||= Files.stamp(path)
      end

      # Notes what was loaded since the last time.
      def note(environment)
        roots = roots(environment)
        loaded = $LOADED_FEATURES.last([$LOADED_FEATURES.length - (@counted || 0), 0].max)
        @counted = $LOADED_FEATURES.length
        (loaded + Puppet::Util::Autoload.loaded.values.map(&:first)).each do |path|
          next if @stamps.key?(path) || !path.start_with?(*roots)

          @stamps[path] = (@early || {}).fetch(path) { stamp_since_begin(path) }
          directory = File.dirname(path)
          @stamps[directory] ||= stamp_since_begin(directory)
        end
        note_places(environment)
      end

      # Where the code of modules is. Ruby names a file that it loads by where the links on its way lead.
      def roots(environment)
        links = environment.modules.map(&:path).select { |path| File.symlink?(path) || File.realpath(path) != path }
        paths = environment.modulepath + [Puppet[:plugindest]] + links
        (paths + paths.filter_map { |path| File.realpath(path) if File.exist?(path) }).uniq.map { |path| "#{path}/" }
      rescue SystemCallError
        environment.modulepath.map { |path| "#{path}/" }
      end

      # What a file is that was loaded at some time since the request began. One that was changed since then may have been another one when it was loaded.
      def stamp_since_begin(path)
        found = Files.stamp(path)
        is_late = found && @began && found.last.between?(@began - TICK, Files.nanoseconds(Time.now))
        is_late ? UNCERTAIN : found
      end

      # Notes where a type or a provider may appear of which nothing is loaded yet.
      def note_places(environment)
        return if @noted == environment.modulepath

        @noted = environment.modulepath
        libraries = environment.modules.map { |mod| "#{mod.path}/lib/puppet" }
        libraries.push("#{Puppet[:plugindest]}/puppet")
        places = libraries.flat_map { |library| ["#{library}/type", "#{library}/provider", *Dir.glob("#{library}/provider/*/")] }
        (@noted + places).each do |path|
          path = path.chomp('/')
          @stamps[path] = stamp_since_begin(path) unless @stamps.key?(path)
        end
      end

      # Whether a new process would load something else.
      def outdated?
        @stamps.any? { |path, stamp| Files.stamp(path) != stamp }
      end

      # What was loaded, as it was then.
      attr_reader :stamps
    end
  end

  module_function

  def start(arguments)
    Puppet::FileSystem.singleton_class.prepend(Recorder)
    Pathname.prepend(PathRecorder)
    Puppet::Util::Storage.singleton_class.prepend(NoStateFile)
    Puppet::Pops::Lookup.singleton_class.prepend(Lookups)
    Quoting.use
    QuickLoading.use
    Puppet.initialize_settings(arguments)
    Puppet::Util::Log.newdesttype(:mgmt) do
      def self.match?(destination)
        destination.is_a?(Messages)
      end

      def initialize(messages)
        @messages = messages
      end

      def handle(message)
        @messages << message
      end
    end
    Puppet::Util::Log.newdestination(MESSAGES)
    Puppet::Util::Log.level = :notice
    Puppet[:color] = false
    Puppet::Node::Facts.indirection.terminus_class = Puppet[:facts_terminus] || :facter
    Puppet::Node::Facts.indirection.cache_class = nil
    Puppet::Node::Facts.indirection.singleton_class.prepend(KeptFacts)
    Puppet::Node.indirection.cache_class = nil
    Puppet::Node.indirection.terminus_class = Puppet[:node_terminus]
    Puppet::Resource::Catalog.indirection.terminus_class = :compiler
    Puppet::Resource::Catalog.indirection.cache_class = nil
    Puppet.push_context_global(Puppet.base_context(Puppet.settings), 'for mgmt')
    environment = some_environment
    Puppet.push_context_global({ current_environment: environment }, 'for mgmt')
    hello(environment)
  end

  def hello(environment)
    agent = Puppet.settings.values(nil, :agent)
    main = Puppet.settings.values(nil, :main)
    {
      'protocol' => PROTOCOL,
      'puppet' => Puppet.version,
      'config' => Puppet[:config],
      'mistake' => settings_mistake,
      'ruby' => RUBY_VERSION,
      'certname' => Puppet[:certname],
      'environment' => environment.name.to_s,
      'modulepath' => environment.modulepath,
      'runinterval' => (agent.interpolate(:runinterval) || main.interpolate(:runinterval)),
      'server' => agent.interpolate(:server),
      'bucket' => agent.interpolate(:clientbucketdir),
      'noop' => agent.interpolate(:noop) ? true : false,
      'tags' => words(agent.interpolate(:tags)),
      'skip_tags' => words(agent.interpolate(:skip_tags)),
      'authorities' => authorities(agent),
      'proxied' => proxied?,
      'ignoreschedules' => agent.interpolate(:ignoreschedules) ? true : false
    }
  end

  # Files with authorities that are trusted when something is fetched over HTTPS, besides those that the host trusts.
  def authorities(values)
    names = [:localcacert, :ssl_trust_store].select { |name| Puppet.settings.valid?(name) }
    names.map { |name| values.interpolate(name) }.compact.map(&:to_s).reject(&:empty?)
  end

  # Whether files are fetched through somebody else.
  def proxied?
    !Puppet::HTTP::Proxy.http_proxy_host.nil?
  rescue NameError
    # Before Puppet 7 it has another name.
    !Puppet::Util::HttpProxy.http_proxy_host.nil?
  end

  # Puppet goes on without a file of settings that it cannot read, as if there were none.
  def settings_mistake
    path = Puppet[:config].to_s
    return unless File.file?(path)

    Puppet::Settings::ConfigFile.new(->(value) { value }).parse_file(path, File.read(path, encoding: 'UTF-8'), Puppet::Settings::ALLOWED_SECTION_NAMES.dup)
    nil
  rescue Puppet::Error => error
    error_hash(error)
  rescue StandardError
    # This Puppet reads them in another way.
    nil
  end

  # What is separated by commas.
  def words(value)
    Array(value).flat_map { |text| text.to_s.split(/\s*,\s*/) }.map(&:strip).reject(&:empty?)
  end

  # The configured environment. The default one need not exist on disk.
  def default_environment
    name = Puppet[:environment].to_sym
    loader = Puppet.lookup(:environments)
    loader.clear_all if loader.respond_to?(:clear_all)
    found = loader.get(name)
    return found.override_from_commandline(Puppet.settings) if found
    raise Puppet::Environments::EnvironmentNotFound, name if Puppet.settings.set_by_cli?(:environment) || Puppet.settings.set_by_config?(:environment)

    environment_without_directory(name)
  end

  # The same, for what does not compile: the environment of an agent is on its server.
  def some_environment
    default_environment
  rescue Puppet::Environments::EnvironmentNotFound
    environment_without_directory(Puppet[:environment].to_sym)
  end

  # An environment that is not on this host's disk, with the modules that were asked for.
  def environment_without_directory(name)
    setting = Puppet.settings.set_by_cli?(:modulepath) ? :modulepath : :basemodulepath
    Puppet::Node::Environment.create(name, Puppet[setting].split(File::PATH_SEPARATOR).reject(&:empty?))
  end

  # An environment that is a directory, whatever the directory is called.
  def directory_environment(directory)
    name = Puppet.settings.set_by_cli?(:environment) ? Puppet[:environment].to_sym : :production
    global = Puppet[:basemodulepath].split(File::PATH_SEPARATOR).reject(&:empty?)
    configuration = Puppet::Settings::EnvironmentConf.load_from(directory, global)
    modulepath, manifest, version = %i[modulepath manifest config_version].map do |setting|
      interpolated(configuration.send(setting), name)
    end
    environment = Puppet::Node::Environment.create(
      name, modulepath.split(File::PATH_SEPARATOR).reject(&:empty?), manifest, version
    ).override_from_commandline(Puppet.settings)
    [environment, Puppet::Environments::StaticDirectory.new(name, directory, environment)]
  end

  # A value of environment.conf with the settings that it names: `modules:$basemodulepath`.
  def interpolated(value, environment)
    return value unless value.is_a?(String)

    value.gsub(/\$(?:(\w+)|\{(\w+)\})/) do |whole|
      setting = (Regexp.last_match(1) || Regexp.last_match(2)).to_sym
      if setting == :environment
        environment.to_s
      else
        Puppet.settings.valid?(setting) ? Puppet[setting].to_s : whole
      end
    end
  end

  # The environment that a request is about, and how others find it.
  def environment_of(request)
    return directory_environment(request['environment_directory']) if request['environment_directory']

    environment = default_environment
    environment = environment.override_with(manifest: request['manifest']) if request['manifest']
    environment = environment.override_with(manifest: Puppet::Node::Environment::NO_MANIFEST) if request['code']
    [environment, Puppet.lookup(:environments)]
  end

  # Compiles a manifest, a directory, an environment or a text, and hands the catalogue to the block.
  def with_catalogue(request)
    environment, loader = environment_of(request)
    Puppet[:code] = request['code'] || ''
    Puppet::Node::Facts.indirection.find(Puppet[:node_name_value], environment: environment)
    Files.clear
    Lookups.found = {}
    manifest = environment.manifest.to_s
    Files.directories << manifest if File.directory?(manifest)
    Puppet.override({ environments: loader, current_environment: environment, loaders: Puppet::Pops::Loaders.new(environment) }, 'for mgmt') do
      name = Puppet[:node_name_value]
      node = Puppet::Node.indirection.find(name, environment: environment)
      raise Puppet::Error, "there is no node #{name}" unless node

      given = node.environment
      if given && given.name != environment.name && !request['environment_directory']
        environment = request['manifest'] ? given.override_with(manifest: request['manifest']) : given
      end
      node.environment = environment
      node.add_server_facts({})
      catalogue = Puppet.override({ current_environment: environment, loaders: Puppet::Pops::Loaders.new(environment) }, 'for mgmt') do
        Puppet::Resource::Catalog.indirection.find(node.name, use_node: node)
      end
      raise Puppet::Error, 'there is no catalogue' unless catalogue

      Puppet::Pops::Evaluator::DeferredResolver.resolve_and_replace(node.facts, catalogue, environment, true)
      yield catalogue, environment
    end
  ensure
    Puppet[:code] = ''
  end

  def compile(request)
    with_catalogue(request) do |catalogue, environment|
      data = Puppet.override({ rich_data: true }, 'for mgmt') { catalogue.to_data_hash }
      place_classes(data, environment)
      answer = {
        'catalogue' => data,
        'paths' => inspect_catalogue(catalogue),
        'generated' => generated(catalogue),
        'lookups' => Lookups.found.reject { |name, _| name == 'lookup_options' },
        'relations' => custom_relations(catalogue),
        'types' => type_facts(catalogue, environment),
        'modules' => environment.modules.to_h { |mod| [mod.name, mod.path] },
        'modulepath' => environment.modulepath,
        'fact_directories' => fact_directories(environment)
      }
      Code.note(environment)
      Files.seen_as(Code.stamps)
      answer.merge(looked_at)
    end
  end

  # Where modules and people put facts.
  def fact_directories(environment)
    modules = environment.modules.flat_map { |mod| ["#{mod.path}/facts.d", "#{mod.path}/lib/facter"] }
    (modules + [Puppet[:pluginfactdest]] + Puppet[:factpath].split(File::PATH_SEPARATOR) + EXTERNAL_FACTS).select { |path| File.directory?(path) }
  end

  # A catalogue does not tell where a class is defined; what it is made of does.
  def place_classes(data, environment)
    known = environment.known_resource_types
    data['resources'].each do |resource|
      next unless resource['type'] == 'Class' && resource['line'].nil?

      definition = known.hostclass(resource['title'].to_s.downcase)
      next unless definition&.line

      resource['file'] = definition.file if place(definition.file)
      resource['line'] = definition.line
    end
  end

  # The automatic relations of types that come from modules: only their own Ruby knows them.
  def custom_relations(catalogue)
    types = catalogue.resources.map(&:type).uniq.reject { |type| KNOWN.include?(type.downcase) }
    types = types.filter_map { |type| Puppet::Type.type(type.downcase) }
    types = types.select { |type| %i[eachautorequire eachautosubscribe eachautobefore eachautonotify].any? { |each| type.send(each) { break true } == true } }
    return [] if types.empty?

    ral = catalogue.to_ral
    ral.resources.select { |resource| types.include?(resource.class) }.flat_map do |resource|
      [[:autorequire, false], [:autosubscribe, true], [:autobefore, false], [:autonotify, true]].flat_map do |relation, notify|
        resource.send(relation, ral).map { |edge| { 'from' => edge.source.ref, 'to' => edge.target.ref, 'notify' => notify } }
      end
    end
  end

  # What there is to know about types that come from modules: whether they look at other resources, and whether they are
  # nothing by themselves.
  def type_facts(catalogue, environment)
    roots = Code.roots(environment)
    names = catalogue.resources.map { |resource| resource.type.downcase }.uniq.reject { |name| KNOWN.include?(name) }
    types = names.to_h { |name| [name, Puppet::Type.type(name)] }.compact
    types.transform_values do |type|
      generates = generates?(type)
      { 'generates' => generates, 'passive' => type.properties.empty? && !generates, 'silent' => !writes_files?(type, roots), 'code' => code_places(type, roots) }
    end
  end

  def generates?(type)
    overrides?(type, :generate) || overrides?(type, :eval_generate)
  end

  # Whether a type has a method of its own, which not every type has.
  def overrides?(type, method)
    type.method_defined?(method) && type.instance_method(method).owner != Puppet::Type
  end

  # Puppet's own final graph, to compare with.
  def relations(request)
    with_catalogue(request) do |catalogue, _|
      graph = catalogue.to_ral.relationship_graph(Puppet::Graph::SequentialPrioritizer.new)
      name = ->(vertex) { vertex.is_a?(Puppet::Type.type(:whit)) ? vertex[:name] : vertex.ref }
      {
        'vertices' => graph.vertices.map(&name),
        'edges' => graph.edges.map { |edge| [name.call(edge.source), name.call(edge.target), edge.callback == :refresh] }
      }
    end
  end

  def facts(request)
    Puppet::Node::Facts.indirection.kept = nil if request['refresh']
    environment = request['environment_directory'] ? environment_of(request).first : some_environment
    environment = plugin_environment(environment.name, [plugin_modules]) if request['agent']
    found = Puppet::Node::Facts.indirection.find(Puppet[:node_name_value], environment: environment)
    { 'values' => found ? found.values : {} }
  end

  # What an agent of Puppet would use here.
  def agent(_request)
    values = Puppet.settings.values(nil, :agent)
    get = ->(name) { values.interpolate(name) }
    port = get.call(:serverport)
    servers = Array(get.call(:server_list)).map { |host, given| [host.to_s, (given || port).to_i] }
    servers = [[get.call(:server), port.to_i]] if servers.empty?
    {
      'certname' => Puppet[:node_name_value],
      'environment' => get.call(:environment).to_s,
      'servers' => servers,
      'certificate' => get.call(:hostcert),
      'key' => get.call(:hostprivkey),
      'authorities' => get.call(:localcacert),
      'revoked' => Puppet[:certificate_revocation] ? get.call(:hostcrl) : nil,
      'vardir' => get.call(:vardir),
      'pluginsync' => Puppet.settings.valid?(:pluginsync) ? Puppet[:pluginsync] != false : true,
      'usecacheonfailure' => get.call(:usecacheonfailure) ? true : false,
      'pidfile' => File.join(get.call(:rundir), 'agent.pid'),
      'run_lock' => get.call(:agent_catalog_run_lockfile),
      'disabled_lock' => get.call(:agent_disabled_lockfile)
    }
  end

  # The directory with the module that was fetched from a server: its types, providers and facts.
  def plugin_modules
    File.join(Puppet.settings.values(nil, :agent).interpolate(:vardir), 'mgmt/modules')
  end

  # An environment of what was fetched from a server.
  def plugin_environment(name, modulepath)
    Puppet::Node::Environment.create(name.to_sym, modulepath || [])
  end

  # A catalogue that a server has compiled: what it left open is filled in, and what only this side knows is told.
  def receive(request)
    environment = plugin_environment(request['environment'], request['modulepath'])
    Puppet.override({ current_environment: environment, loaders: Puppet::Pops::Loaders.new(environment) }, 'for mgmt') do
      catalogue = Puppet::Resource::Catalog.from_data_hash(request['catalogue'])
      unknown = request['catalogue']['resources'].reject { |it| it['kind'] == 'defined_type' || %w[Class Stage Node].include?(it['type']) }
      unknown = unknown.map { |it| it['type'] }.uniq.reject { |type| type.include?('::') || Puppet::Type.type(type.downcase) }
      data = nil
      if JSON.generate(request['catalogue']).include?('"Deferred"')
        facts = Puppet::Node::Facts.indirection.find(Puppet[:node_name_value], environment: environment)
        Puppet::Pops::Evaluator::DeferredResolver.resolve_and_replace(facts, catalogue, environment, true)
        data = Puppet.override({ rich_data: true }, 'for mgmt') { catalogue.to_data_hash }
      end
      paths = inspect_catalogue(catalogue)
      answer = { 'catalogue' => data, 'paths' => paths, 'generated' => generated(catalogue), 'relations' => custom_relations(catalogue),
                 'types' => type_facts(catalogue, environment), 'unknown' => unknown }
      Code.note(environment)
      answer
    end
  end

  # Facts that somebody else has gathered.
  def use_facts(request)
    Puppet::Node::Facts.indirection.kept = request['values']
    {}
  end

  SERVED = %w[compile relations apply facts use_facts agent receive].freeze

  # Methods that run the Ruby code of modules. Types and providers cannot be loaded twice into one process, so another process is needed for
  # code that was edited.
  CODE_USERS = %w[compile relations apply receive].freeze

  def serve(request)
    MESSAGES.clear
    method = request['method']
    raise ArgumentError, "there is no method #{method}" unless SERVED.include?(method)

    Code.begin
    return { 'id' => request['id'], 'outdated' => true } if CODE_USERS.include?(method) && Code.outdated?

    result = send(method, request)
    { 'id' => request['id'], 'ok' => result, 'messages' => MESSAGES.list.map { |message| message_hash(message) } }
  rescue SystemExit, StandardError, ScriptError, SystemStackError, NoMemoryError => error
    { 'id' => request['id'], 'error' => error_hash(error), 'messages' => MESSAGES.list.map { |message| message_hash(message) } }.merge(looked_at)
  end

  # What a compile has looked at.
  def looked_at
    { 'files' => Files.read, 'absent' => Files.absent.to_a, 'directories' => Files.directories.map(&:to_s), 'seen' => Files.stamps }
  end

  def message_hash(message)
    { 'level' => message.level.to_s, 'message' => text(message.message), 'source' => text(message.source), 'file' => place(message.file), 'line' => message.line,
      'column' => message.respond_to?(:pos) ? message.pos : nil }
  end

  def error_hash(error)
    at = ->(name) { error.respond_to?(name) ? error.send(name) : nil }
    { 'message' => text(error.message), 'class' => error.class.name, 'file' => place(at.call(:file)), 'line' => at.call(:line), 'column' => at.call(:pos) }
  end

  def place(file)
    file.nil? || file == :default || file.to_s.empty? ? nil : text(file)
  end

  def text(value)
    value.to_s.dup.force_encoding('UTF-8').scrub
  end

  def reply(data)
    line = begin
      JSON.generate(data)
    rescue StandardError => error
      JSON.generate('id' => data['id'], 'error' => { 'message' => "the answer is not text: #{text(error.message)}", 'class' => error.class.name })
    end
    REPLIES.write(line, "\n")
  end

  # Puppet starts commands in sessions of their own, where whoever ends this process does not reach them.
  def end_children(parent = Process.pid)
    File.read("/proc/#{parent}/task/#{parent}/children").split.map(&:to_i).each do |child|
      Process.kill(:STOP, child)
      end_children(child)
      Process.kill(:KILL, child)
    end
  rescue SystemCallError
    # It is gone already.
  end

  # Requests are taken off the pipe at once, so that their end is noticed while one is served.
  def run(arguments)
    queue = Queue.new
    Thread.new do
      REQUESTS.each_line { |line| queue << line }
      end_children
      exit!(0)
    end
    reply('hello' => start(arguments), 'messages' => MESSAGES.list.map { |message| message_hash(message) })
    loop do
      request = begin
        JSON.parse(queue.pop)
      rescue JSON::ParserError => error
        reply('id' => nil, 'error' => { 'message' => "not a request: #{text(error.message)}", 'class' => 'ParserError' })
        next
      end
      reply(serve(request))
    end
  rescue StandardError, ScriptError => error
    reply('failed' => error_hash(error))
    exit!(1)
  end
end
