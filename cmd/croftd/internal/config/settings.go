package config

import (
	"slices"
	"time"

	"github.com/croft-edge/croft/cmd/croftd/internal/mirrors"
	"github.com/croft-edge/croft/pkg/dial"
)

// Kind is the format of a setting's value.
type Kind string

// The kinds of value.
const (
	Text     Kind = "text"
	Switch   Kind = "true or false"
	Number   Kind = "whole number"
	Size     Kind = "size (such as 4GiB)"
	Duration Kind = "duration (such as 30s)"
	List     Kind = "list, separated by commas"
)

// Setting is one setting of an operator. Its name is the flag and the key in the file; the environment
// variable is derived from it.
type Setting struct {
	Name string
	Kind Kind
	// Default may refer to other settings in braces.
	Default string
	Help    string
	// Group is the heading of its documentation.
	Group string
	Set   Setter
	// ReadBy are its readers: names of modules, Process or Live. Nothing stands for the module that it is a
	// setting of, for a setting of the node itself for Process.
	ReadBy []string
}

// Readers of settings beside modules.
const (
	// Process reads a setting when the process starts: a change needs a restart of croftd.
	Process = "process"
	// Live reads a setting again on a reload: a change restarts nothing.
	Live = "live"
)

// Setter is how a setting's text is read.
type Setter struct {
	// Parse parses text into c. Its error says which values are allowed; Load adds the setting, the value
	// and its source.
	Parse func(c *Config, text string) error
	// Allowed is what a schema can say of the texts that Parse accepts.
	Allowed Allowed
}

// Allowed describes texts for a schema. Parse may refuse more.
type Allowed struct {
	// Enum are all allowed texts.
	Enum []string
	// Pattern matches each allowed text, of a list each item; it needs no anchors.
	Pattern string
	// Min and Max bound a number; a Max of 0 is no bound.
	Min, Max uint64
}

// Parsed is a setter without a description for schemas.
func Parsed(parse func(c *Config, text string) error) Setter { return Setter{Parse: parse} }

// Matching is a setter whose allowed texts match a pattern.
func Matching(pattern string, parse func(c *Config, text string) error) Setter {
	return Setter{Parse: parse, Allowed: Allowed{Pattern: pattern}}
}

// InGroup puts settings under a heading of the documentation.
func InGroup(group string, all []Setting) []Setting {
	for i := range all {
		all[i].Group = group
	}
	return all
}

// The headings of the node's own settings.
const (
	groupPlace     = "Where things are"
	groupMirrors   = "Copies of the store"
	groupExplorer  = "Explorer"
	groupBus       = "Bus"
	groupAdmission = "Admission"
	groupDoor      = "Users' way to the node"
	groupSeen      = "Logs, health, control"
	groupTime      = "Times"
)

// Settings is the table of all settings, in the order of the documentation: the node's own, with those
// of its modules among them.
func Settings(modules []Setting) []Setting {
	all := slices.Concat(placeSettings(), busSettings(), modules, admissionSettings(), doorSettings(), seenSettings(), timeSettings())
	return OfReader(Process, all)
}

// OfReader gives settings without a reader that one.
func OfReader(name string, all []Setting) []Setting {
	for i := range all {
		if len(all[i].ReadBy) == 0 {
			all[i].ReadBy = []string{name}
		}
	}
	return all
}

func placeSettings() []Setting {
	return []Setting{
		{Name: "state-dir", Kind: Text, Default: "/var/lib/croft", Help: "folder of data that must survive a reboot: the node's key, the store, the pool's loop file", Group: groupPlace,
			Set: SetPath(func(c *Config) *string { return &c.StateDir })},
		{Name: "run-dir", Kind: Text, Default: "/run/croft", Help: "sockets and mount points", Group: groupPlace,
			Set: SetPath(func(c *Config) *string { return &c.RunDir })},
		{Name: "hooks-dir", Kind: Text, Default: "/etc/croft/hooks.d", Help: "folder of the operator's hooks; only root may write to it and to those above", Group: groupPlace, ReadBy: []string{Live},
			Set: SetPath(func(c *Config) *string { return &c.HooksDir })},
		{Name: "secrets-dir", Kind: Text, Default: "/etc/croft/secrets", Help: "folder of the secrets: keys of S3 servers, and state-key and node-seed if you give them; a file each: root's, mode 0400; systemd's credentials come first", Group: groupPlace,
			Set: SetPath(func(c *Config) *string { return &c.SecretsDir })},
		{Name: "mirrors", Kind: List, Default: "", Help: "where sealed copies of the store are kept: " + mirrors.Allowed, Group: groupMirrors,
			Set: places(func(c *Config) *[]mirrors.Place { return &c.Mirrors })},
		{Name: "recovery-key", Kind: Text, Default: "", Help: "ID of the key that can restore the store and the node's own key from a mirror; keep its private part offline: who has it is the node", Group: groupMirrors,
			Set: optionalID(func(c *Config) *string { return &c.RecoveryKey })},
		{Name: "explorer", Kind: Text, Default: "", Help: "the explorer's URL; without one the node keeps its workloads and gets no new ones", Group: groupExplorer,
			Set: httpURL(func(c *Config) *string { return &c.Explorer })},
		{Name: "farm-id", Kind: Number, Default: "0", Help: "the farm that the node claims to belong to; 0 for none", Group: groupExplorer,
			Set: SetNumber(func(c *Config) *uint64 { return &c.FarmID })},
		{Name: "trust-explorer-clock", Kind: Switch, Default: "false", Help: "trust the explorer's clock: data is removed by its word alone where NTP doesn't contradict it", Group: groupExplorer,
			Set: SetSwitch(func(c *Config) *bool { return &c.TrustExplorerClock })},
	}
}

func busSettings() []Setting {
	return []Setting{
		{Name: "bus", Kind: Text, Default: "", Help: "redis server of a node whose modules are processes of their own; empty: the whole node is one process", Group: groupBus,
			Set: busURL(func(c *Config) *string { return &c.Bus })},
		{Name: "bus-listen", Kind: Text, Default: "unix://{run-dir}/bus.sock", Help: "where the one process serves its bus to others; none for nowhere", Group: groupBus,
			Set: busListen(func(c *Config) *string { return &c.BusListen })},
	}
}

func admissionSettings() []Setting {
	return []Setting{
		{Name: "reserve-cpu", Kind: Number, Default: "0", Help: "cores that the node keeps for itself", Group: groupAdmission,
			Set: SetNumber(func(c *Config) *uint64 { return &c.Reserve.CPU })},
		{Name: "cpu-overcommit", Kind: Number, Default: "1", Help: "vCPUs that may be reserved for each core; containers share busy cores in proportion to their reservations", Group: groupAdmission,
			Set: SetNumberIn(func(c *Config) *uint64 { return &c.Overcommit }, 1, 100)},
		{Name: "reserve-memory", Kind: Size, Default: "512MiB", Help: "memory that the node keeps for itself", Group: groupAdmission,
			Set: SetSize(func(c *Config) *uint64 { return &c.Reserve.Memory })},
		{Name: "reserve-disk", Kind: Size, Default: "0", Help: "disk of each type that the node keeps for itself", Group: groupAdmission,
			Set: SetSize(func(c *Config) *uint64 { return &c.Reserve.Disk })},
		{Name: "allow-users", Kind: List, Default: "", Help: "IDs of the users that may reserve here; empty: everyone", Group: groupAdmission,
			Set: ids(func(c *Config) *[]string { return &c.AllowUsers })},
		{Name: "debug-users", Kind: List, Default: "", Help: "IDs of the users that may reserve a stream of the node's log lines; empty: nobody", Group: groupAdmission,
			Set: ids(func(c *Config) *[]string { return &c.DebugUsers })},
		{Name: "allow-private", Kind: List, Default: "", Help: "where tenants may go although it isn't public: CIDR, CIDR:port or host:port", Group: groupAdmission,
			Set: exceptions(func(c *Config) *[]dial.Exception { return &c.AllowPrivate })},
		{Name: "max-duration", Kind: Duration, Default: "8760h", Help: "the furthest expiry that is accepted, counted from now, also for renewals", Group: groupAdmission,
			Set: SetDuration(func(c *Config) *time.Duration { return (&c.MaxDuration) })},
		{Name: "max-records", Kind: Number, Default: "50000", Help: "reservations of all users that are remembered, ended ones until they may be forgotten; beyond it new ones are refused; 0: no limit", Group: groupAdmission,
			Set: SetNumber(func(c *Config) *uint64 { return &c.MaxRecords })},
		{Name: "max-user-workloads", Kind: Number, Default: "1000", Help: "workloads that one user may have here at a time; 0: no limit", Group: groupAdmission,
			Set: SetNumber(func(c *Config) *uint64 { return &c.UserLimit.Workloads })},
		{Name: "max-user-records", Kind: Number, Default: "10000", Help: "reservations of one user that are remembered, ended ones until their signed end; 0: no limit", Group: groupAdmission,
			Set: SetNumber(func(c *Config) *uint64 { return &c.UserLimit.Records })},
		{Name: "max-user-cpu", Kind: Number, Default: "0", Help: "cores that one user may have here; 0: no limit", Group: groupAdmission,
			Set: SetNumber(func(c *Config) *uint64 { return &c.UserLimit.CPU })},
		{Name: "max-user-memory", Kind: Size, Default: "0", Help: "memory that one user may have here; 0: no limit", Group: groupAdmission,
			Set: SetSize(func(c *Config) *uint64 { return &c.UserLimit.Memory })},
		{Name: "max-user-ssd", Kind: Size, Default: "0", Help: "SSD that one user may have here; 0: no limit", Group: groupAdmission,
			Set: SetSize(func(c *Config) *uint64 { return &c.UserLimit.SSD })},
		{Name: "max-user-hdd", Kind: Size, Default: "0", Help: "HDD that one user may have here; 0: no limit", Group: groupAdmission,
			Set: SetSize(func(c *Config) *uint64 { return &c.UserLimit.HDD })},
		{Name: "accept-signature-v1", Kind: Switch, Default: "false", Help: "accept version 1 signatures, which cover neither dates nor deletion", Group: groupAdmission,
			Set: SetSwitch(func(c *Config) *bool { return &c.AcceptSignatureV1 })},
		{Name: "grace", Kind: Duration, Default: "168h", Help: "how long orphans (labelled, without a record) and evicted workloads are kept", Group: groupAdmission,
			Set: SetDuration(func(c *Config) *time.Duration { return (&c.Grace) })},
	}
}

func doorSettings() []Setting {
	return []Setting{
		{Name: "door-listen", Kind: Text, Default: ":9178", Help: "where users read their containers' logs and run commands in them (HTTPS with the node's own key); port 0 takes a free one; none for nowhere, and no tunnel", Group: groupDoor,
			Set: listenAddress(func(c *Config) *string { return &c.DoorListen })},
		{Name: "door-file", Kind: Text, Default: "", Help: "file that gets the address in use of door-listen", Group: groupDoor,
			Set: SetOptionalPath(func(c *Config) *string { return &c.DoorFile })},
		{Name: "door-address", Kind: Text, Default: "", Help: "host:port at which users reach door-listen; empty: a public address of the machine, and a tunnel through the explorer too; none: the tunnel alone", Group: groupDoor,
			Set: hostPort(func(c *Config) *string { return &c.DoorAddress })},
	}
}

func seenSettings() []Setting {
	return []Setting{
		{Name: "health-listen", Kind: Text, Default: "127.0.0.1:9177", Help: "where /healthz, /readyz and /metrics are served; port 0 takes a free one; none for nowhere", Group: groupSeen,
			Set: listenAddress(func(c *Config) *string { return &c.HealthListen })},
		{Name: "health-file", Kind: Text, Default: "", Help: "file that gets the address in use of health-listen", Group: groupSeen,
			Set: SetOptionalPath(func(c *Config) *string { return &c.HealthFile })},
		{Name: "state-socket", Kind: Text, Default: "{run-dir}/state.sock", Help: "socket of the node's state: croftd status, evict and store, and croft get; mode 0600", Group: groupSeen,
			Set: SetPath(func(c *Config) *string { return &c.StateSocket })},
		{Name: "log-level", Kind: Text, Default: "info", Help: "trace, debug, info, warn or error", Group: groupSeen,
			Set: OneOf(func(c *Config) *string { return &c.LogLevel }, "trace", "debug", "info", "warn", "error")},
		{Name: "log-format", Kind: Text, Default: "json", Help: "json, or text for people", Group: groupSeen,
			Set: OneOf(func(c *Config) *string { return &c.LogFormat }, "json", "text")},
	}
}

func timeSettings() []Setting {
	return []Setting{
		{Name: "heartbeat", Kind: Duration, Default: "1m", Help: "interval of the node's sign of life to the explorer, give or take a fifth", Group: groupTime,
			Set: SetDuration(func(c *Config) *time.Duration { return (&c.Heartbeat) })},
		{Name: "poll-wait", Kind: Duration, Default: "30s", Help: "how long the explorer may hold a poll open", Group: groupTime,
			Set: SetDuration(func(c *Config) *time.Duration { return (&c.PollWait) })},
		{Name: "step-timeout", Kind: Duration, Default: "2m", Help: "how long one reservation may occupy the engine", Group: groupTime,
			Set: SetDuration(func(c *Config) *time.Duration { return (&c.StepTimeout) })},
		{Name: "stop-timeout", Kind: Duration, Default: "10s", Help: "how long results are still sent when the node stops", Group: groupTime,
			Set: SetDuration(func(c *Config) *time.Duration { return (&c.StopTimeout) })},
	}
}
