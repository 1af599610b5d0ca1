package spec

import specs "github.com/opencontainers/runtime-spec/specs-go"

// Build writes the specification of a container for this machine.
func Build(c Config, h Host) (*specs.Spec, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return nil, nil
}

// cpuPeriod is the time over which a CPU quota counts, in microseconds.
const cpuPeriod = 100_000
