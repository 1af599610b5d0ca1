package seal

// Unpack is what Open does with an object's text.
func Unpack(packed []byte) ([]byte, error) { return (&packer{}).unpack(packed) }
