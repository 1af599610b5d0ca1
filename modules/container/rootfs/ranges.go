package rootfs

// Range is the user and group IDs on the node that a user's containers have.
type Range struct {
	Base uint32
	Size uint32
}

type ranges struct{}

// Range is that of a user, the same for ever. Refused when all are taken.
func (s *Store) Range(user string) (Range, error) { return Range{}, nil }
