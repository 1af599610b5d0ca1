package spec

// WithCgroups is a probe whose cgroups are made and removed by these, and whose
// search for apparmor_parser ends like that.
func (p Probe) WithCgroups(mkdir, rmdir func(dir string) error, parser error) Probe {
	p.mkdir, p.rmdir, p.parser = mkdir, rmdir, func() error { return parser }
	return p
}

// DeviceFilter is deviceFilter.
func DeviceFilter(dir string) error { return deviceFilter(dir) }
