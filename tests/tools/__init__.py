"""What several test modules share: PTX made for a test, findings made by hand, and the programs that are asked."""
