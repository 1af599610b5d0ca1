package resp

import "strconv"

// AppendBulk appends b as a bulk string.
func AppendBulk(dst, b []byte) []byte {
	dst = appendHead(dst, '$', int64(len(b)))
	dst = append(dst, b...)
	return append(dst, '\r', '\n')
}

// AppendBulkString appends s as a bulk string.
func AppendBulkString(dst []byte, s string) []byte {
	dst = appendHead(dst, '$', int64(len(s)))
	dst = append(dst, s...)
	return append(dst, '\r', '\n')
}

// AppendNull appends the null bulk string.
func AppendNull(dst []byte) []byte { return append(dst, "$-1\r\n"...) }

// AppendNullArray appends the null array.
func AppendNullArray(dst []byte) []byte { return append(dst, "*-1\r\n"...) }

// AppendInt appends an integer.
func AppendInt(dst []byte, n int64) []byte { return appendHead(dst, ':', n) }

// AppendArray appends the head of an array of n values, which the caller appends.
func AppendArray(dst []byte, n int) []byte { return appendHead(dst, '*', int64(n)) }

// AppendSimple appends a line, such as "OK". s has no line ends.
func AppendSimple(dst []byte, s string) []byte {
	dst = append(dst, '+')
	dst = append(dst, s...)
	return append(dst, '\r', '\n')
}

// AppendError appends an error, text alone: 0-db puts no code word before it.
// text has no line ends.
func AppendError(dst []byte, text string) []byte {
	dst = append(dst, '-')
	dst = append(dst, text...)
	return append(dst, '\r', '\n')
}

func appendHead(dst []byte, kind byte, n int64) []byte {
	dst = append(dst, kind)
	dst = strconv.AppendInt(dst, n, 10)
	return append(dst, '\r', '\n')
}
