package mirrors

// Behind is behind.
var Behind = behind
