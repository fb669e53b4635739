
# Has Puppet's own types validate a compiled catalogue, and tells which paths each resource manages.
module MgmtPuppet
  # Types that contain other resources and have no state.
  CONTAINERS = %i[stage class node component whit].to_set

  # The parameters of known types that name a path which the resource manages.
  MANAGED = {
    file: %i[path], concat_file: %i[path], concat_fragment: [], filebucket: %i[path], exec: %i[creates], user: %i[home], mount: %i[name target],
    host: %i[target], sshkey: %i[target], ssh_authorized_key: %i[target], mailalias: %i[target], augeas: %i[incl],
    tidy: [], package: [], service: [], group: [], notify: [], schedule: [], resources: [], cron: [], anchor: []
  }.freeze

  # Parameters of other types whose paths are read or run, and not managed.
  MENTIONED = %i[source sources cwd command refresh onlyif unless content provider shell validate_cmd].to_set

  # Methods of providers that compose a path of what a resource is given.
  PATH_METHODS = %i[path target file_path].freeze

  # Parameters that relate a resource to others. What is known without being applied needs none of them.
  RELATING = %i[require before notify subscribe alias stage noop schedule audit loglevel].to_set

  # Ruby that writes files. What none of a type's code matches writes none by itself.
  WRITES = /\b(?:File\.(?:open|new|write|binwrite|rename|symlink|link|mkfifo)|IO\.(?:write|binwrite)|FileUtils|Pathname|Tempfile|Uniquefile|Dir\.mkdir|
             replace_file|FileSystem\.(?:open|exclusive_create|exclusive_open|touch|mkpath|symlink)|FileType|ParsedFile|IniFile|Augeas)\b|(?<![\w.])open\(/x.freeze

  # Types whose paths depend on which accounts and files this host has.
  HOST_DEPENDENT = %i[user ssh_authorized_key augeas].freeze

  # What separates the words of a command.
  BETWEEN_WORDS = /[\s"'`;|&()<>=,]+/.freeze

  # What a command writes its output to.
  REDIRECTION = %r{>>?\s*["']?(/[^\s"'`;|&()<>=,]+)}.freeze

  # Where the jobs of a user are kept.
  CRON_TABLES = %w[/var/spool/cron/crontabs /var/spool/cron].freeze

  # What only says that this host lacks something now, which another resource may bring, and which a kind of ours may not need.
  HOST_LACKS = /must have features/.freeze

  # The longest path that a kernel takes.
  LONGEST_PATH = 4096

  # What a resource was found to be. `key` is what tells it from others of its type.
  Inspected = Struct.new(:key, :paths)

  module_function

  # Validates every resource as `puppet apply` does before it changes anything, and tells all that is refused, not the first alone. A resource that is
  # the same as in the compile before is not validated again. A resource of which Puppet could not tell the paths is not in the answer.
  def inspect_catalogue(catalogue)
    before = @inspected || {}
    now = {}
    found = {}
    problems = []
    into = Puppet::Resource::Catalog.new(catalogue.name, catalogue.environment_instance)
    said = MESSAGES.list.length
    catalogue.resources.each do |resource|
      type = native_type(resource)
      next unless type

      key = [type, resource.title, resource.to_hash]
      inspected = before[key] unless HOST_DEPENDENT.include?(type.name)
      inspected ||= inspect_resource(resource, into)
      now[key] = inspected
      found[resource] = inspected
    rescue Puppet::Error, ArgumentError, TypeError, NoMethodError => error
      problems << [resource, redacted(error.message, resource)] unless error.message.match?(HOST_LACKS)
    end
    MESSAGES.list.slice!(said..)
    @inspected = now
    problems.concat(duplicates(found))
    refuse(problems) unless problems.empty?
    found.to_h { |resource, inspected| [resource.ref, inspected.paths] }.compact
  end

  # The type that brings a resource about. A container has none, nor has a type that only another host knows.
  def native_type(resource)
    return if resource.virtual? || resource.class? || resource.stage?

    type = resource.resource_type
    type if type.is_a?(Class) && type <= Puppet::Type && !CONTAINERS.include?(type.name)
  end

  def inspect_resource(resource, catalogue)
    copy = resource.copy_as_resource
    copy.catalog = catalogue
    ral = copy.to_ral
    key = ral.isomorphic? ? ral.uniqueness_key.map(&:to_s) : []
    Inspected.new(key, managed_paths(ral))
  end

  # Two titles for one thing.
  def duplicates(found)
    first = {}
    found.filter_map do |resource, inspected|
      next if inspected.key.empty?

      other = (first[[resource.type, inspected.key]] ||= resource)
      next if other.equal?(resource)

      file = place(other.file)
      at = other.line ? " (#{file || 'line'}:#{' ' unless file}#{other.line})" : ''
      [resource, "#{resource.ref} and #{other.ref}#{at} are the same: #{inspected.key.reject(&:empty?).join(', ')}"]
    end
  end

  # No catalogue is made of this.
  def refuse(problems)
    problems.each do |resource, message|
      Puppet::Util::Log.create(level: :err, message: message, file: place(resource.file), line: resource.line)
    end
    resource, message = problems.last
    raise Puppet::ParseError.new(message, place(resource.file), resource.line)
  end

  # A message without the values that nobody is to see.
  def redacted(message, resource)
    names = resource.sensitive_parameters.map(&:to_sym)
    secrets = resource.to_hash.filter_map do |name, value|
      is_wrapped = value.is_a?(Puppet::Pops::Types::PSensitiveType::Sensitive)
      (is_wrapped ? value.unwrap : value).to_s if is_wrapped || names.include?(name)
    end
    secrets.reject(&:empty?).reduce(text(message)) { |shown, secret| shown.gsub(text(secret), '[value hidden]') }
  end

  # Absolute paths of what a resource makes or edits, whatever its parameters are called. `nil` if that cannot be told.
  def managed_paths(ral)
    type = ral.class.name
    names = MANAGED.fetch(type) { ral.parameters.keys.reject { |name| MENTIONED.include?(name) || Puppet::Type.metaparam?(name) } }
    values = names.map { |name| ral.parameter(name)&.then { |it| it.is_a?(Puppet::Property) ? it.should : it.value } }
    # What a type of a module does with a text is not known.
    paths = MANAGED.key?(type) ? absolute_paths(values) : embedded_paths(values)
    paths += other_paths(ral)
    paths << home_of(ral[:name]) if type == :user && paths.empty? && ral[:managehome]
    paths += provider_paths(ral) unless MANAGED.key?(type)
    (paths + default_target(ral)).uniq
  rescue StandardError
    # A value of a type that computes it when it is asked for.
    nil
  end

  # What a resource of a known type makes besides what its parameters name as such.
  def other_paths(ral)
    case ral.class.name
    when :augeas then augeas_paths(ral)
    when :file, :concat_file then backup_paths(ral)
    when :exec then command_paths(ral)
    when :cron then cron_tables(ral)
    when :ssh_authorized_key then ral[:target] || !ral[:user] ? [] : ["#{home_of(ral[:user])}/.ssh/authorized_keys"]
    else []
    end
  end

  # What a command makes: what the condition asks for that keeps it from running, and what it writes its output to.
  def command_paths(ral)
    given = ->(name) { Array(ral.parameter(name)&.then { |it| it.sensitive ? nil : it.value }).flatten.map(&:to_s) }
    asked = given.call(:unless).flat_map { |command| command.split(BETWEEN_WORDS) }
    written = %i[command refresh].flat_map { |name| given.call(name).join(' ').scan(REDIRECTION).flatten }
    absolute_paths(asked + written).reject { |path| path.start_with?('/dev/') }
  end

  def cron_tables(ral)
    user = [ral[:target], ral[:user], Etc.getpwuid.name].map(&:to_s).find { |name| !name.empty? && name != 'absent' }
    user.include?('/') ? absolute_paths(user) : CRON_TABLES.map { |tables| "#{tables}/#{user}" }
  end

  # The home directory that an account has, or is made with.
  def home_of(name)
    Etc.getpwnam(name).dir
  rescue ArgumentError
    "/home/#{name}"
  end

  # The copy of what was there before.
  def backup_paths(ral)
    suffix = ral[:backup].to_s
    suffix = '.puppet-bak' if suffix == 'true'
    suffix.start_with?('.') ? ["#{ral[:path]}#{suffix}"] : []
  end

  # The files whose parts are named in Augeas' tree: by the context, and by what is asked and changed.
  def augeas_paths(ral)
    context = ral[:context].to_s
    commands = %i[changes onlyif].flat_map { |name| Array(ral.parameter(name)&.value) }.flat_map { |text| text.to_s.lines }
    words = commands.flat_map { |command| command.strip.split(/\s+/).drop(1).map { |word| word.delete_prefix('"').delete_prefix("'") } }
    nodes = [context] + words.map { |word| word.start_with?('/') ? word : "#{context}/#{word}" }
    nodes.filter_map { |node| augeas_file(node, ral[:root].to_s) }.uniq
  end

  # The file that a node of the tree is in: what is there of its path, or all of the path that names no part of a file.
  def augeas_file(node, root)
    return unless node.start_with?('/files/')

    plain = node.delete_prefix('/files/').split('/').reject(&:empty?).take_while { |part| part.match?(/\A[^\[\]*()'"|=\s]+\z/) }
    places = (1..plain.length).map { |count| File.join(root.empty? ? '/' : root, *plain.take(count)) }
    places.reverse.find { |place| File.file?(place) } || places.last
  end

  # Paths that a provider composes itself, if it has a method for that.
  def provider_paths(ral)
    provider = ral.provider
    methods = PATH_METHODS.select { |name| provider.respond_to?(name) && provider.method(name).arity <= 0 }
    methods.flat_map do |name|
      absolute_paths(provider.public_send(name))
    rescue StandardError
      # It only knows once it is applied.
      []
    end
  end

  # The file of a type that edits entries of files, if it is not given.
  def default_target(ral)
    provider = ral.provider.class
    return [] if ral.class.name == :cron || !provider.respond_to?(:default_target) || (ral.class.validattr?(:target) && ral[:target])

    absolute_paths(provider.default_target)
  end

  def absolute_paths(value)
    case value
    when String then value.start_with?('/') && value.length > 1 && value.length < LONGEST_PATH && !value.match?(/[\n\0]/) ? [value] : []
    when Array then value.flat_map { |one| absolute_paths(one) }
    when Hash then value.values.flat_map { |one| absolute_paths(one) }
    else []
    end
  end

  # Paths in the texts of a type that nobody here knows: a path alone, or several between commas, colons, semicolons, blanks or behind `=`.
  def embedded_paths(value)
    case value
    when String
      return [] if value.length >= LONGEST_PATH || value.match?(/[\n\0]/)

      text = value.gsub(%r{\bfile://(?=/)}i, ' ').gsub(%r{\b[a-z][a-z0-9+.-]*://\S*}i, ' ')
      absolute_paths([value, *text.split(/[\s,;:=|"'()\[\]]+/)]).uniq
    when Array then value.flat_map { |one| embedded_paths(one) }
    when Hash then value.values.flat_map { |one| embedded_paths(one) }
    else []
    end
  end

  # Whether a type, its properties or its providers have Ruby that writes files, as far as their code is known.
  def writes_files?(type, roots)
    parts = [type, *type.allattrs.map { |name| type.attrclass(name) }, *type.providers.map { |name| type.provider(name) }].compact
    files = parts.flat_map { |part| code_of(part) }.uniq.select { |path| path.start_with?(*roots) }
    # What they may use besides.
    helpers = files.map { |path| path[%r{\A.*?/lib(?=/puppet/)}] }.compact.uniq
    files += helpers.flat_map { |library| Dir.glob(["#{library}/puppet_x/**/*.rb", "#{library}/puppet/util/**/*.rb"]) }
    files.empty? || files.any? { |path| File.read(path, encoding: 'UTF-8').scrub.match?(WRITES) }
  rescue StandardError
    true
  end

  # Where the Ruby of a type and its providers is, if that is in modules: directories, and with a slash at the end what helpers may be in.
  def code_places(type, roots)
    parts = [type, *type.providers.map { |name| type.provider(name) }].compact
    files = parts.flat_map { |part| code_of(part) }.uniq.select { |path| path.start_with?(*roots) }
    helpers = files.filter_map { |path| path[%r{\A.*?/lib(?=/puppet/)}] }.uniq.map { |library| "#{library}/puppet_x/" }
    (files.map { |path| File.dirname(path) } + helpers.select { |path| File.directory?(path) }).uniq.sort
  rescue StandardError
    []
  end

  # The files that a class and what it is made of are defined in.
  def code_of(part)
    modules = (part.ancestors + part.singleton_class.ancestors).uniq - Object.ancestors - Class.ancestors
    modules.flat_map do |one|
      methods = one.instance_methods(false) + one.private_instance_methods(false)
      methods.filter_map { |name| one.instance_method(name).source_location&.first }
    end
  end

  # What a type of a module makes besides itself, as it says itself: paths, and resources by what names them. Only asked where somebody purges: it
  # may take a while. `nil` if only applying the resource would tell.
  def generated(catalogue)
    makers = catalogue.resources.select { |resource| (type = native_type(resource)) && !MANAGED.key?(type.name) && generates?(type) }
    return {} if makers.empty? || !purges?(catalogue)

    ral = catalogue.to_ral
    said = MESSAGES.list.length
    makers.to_h { |resource| [resource.ref, generated_by(ral.resource(resource.ref))] }
  ensure
    MESSAGES.list.slice!(said..) if said
  end

  def generated_by(ral)
    return if ral.nil? || overrides?(ral.class, :eval_generate)

    children = Array(ral.generate).compact
    paths = children.map { |child| managed_paths(child) }
    return if paths.include?(nil)

    { 'paths' => paths.flatten.uniq, 'resources' => children.map { |child| named(child) } }
  rescue StandardError, ScriptError
    nil
  end

  # A resource by what tells it from others, in the form in which it is known when another one is applied.
  def named(ral)
    given = ral.original_parameters.transform_keys(&:to_sym).reject { |name, _| RELATING.include?(name) }
    ral.class.key_attributes.each { |name| given[name] ||= ral[name] }
    sensitive = given.keys.select { |name| ral.parameter(name)&.sensitive }
    parameters = given.transform_values { |value| plain(value) }.compact
    { 'type' => ral.class.name.to_s, 'title' => text(ral.title), 'parameters' => parameters.transform_keys(&:to_s), 'sensitive' => sensitive.map(&:to_s),
      'passive' => false }
  end

  # A value as JSON has it, or `nil` if it has no such value.
  def plain(value)
    case value
    when String, Symbol then text(value)
    when Integer, Float, true, false then value
    when Array then value.map { |one| plain(one) }.then { |list| list.include?(nil) ? nil : list }
    when Hash then value.to_h { |key, one| [text(key), plain(one)] }.then { |map| map.value?(nil) ? nil : map }
    end
  end

  # Whether something in the catalogue removes what is not managed.
  def purges?(catalogue)
    catalogue.resources.any? do |resource|
      asked = resource[resource.type == 'User' ? :purge_ssh_keys : :purge]
      resource.type == 'Tidy' || (%w[File Resources User].include?(resource.type) && ![nil, false, 'false', 'no'].include?(asked))
    end
  end
end
