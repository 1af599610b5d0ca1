package spec

// WithCgroups is a probe whose cgroups are made by mkdir, and whose machine has
// apparmor_parser or not.
func (p Probe) WithCgroups(mkdir func(dir string) error, parser error) Probe {
	p.mkdir, p.parser = mkdir, func() error { return parser }
	return p
}
